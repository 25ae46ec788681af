// SPDX-License-Identifier: Apache-2.0
//
// The greedy choice of sticks, op by op; stick_search.h says how.
#ifndef FRONT_STICK_GREEDY_H
#define FRONT_STICK_GREEDY_H

#include "front/layout/stick_modes.h"

// Leaves local buffers with the layouts that it chose. SPYRE_UNSUPPORTED names an op without a
// mode.
SPYRE_MUST_CHECK spyre_status stick_greedy(loop_graph *loops, const uint16_t *writable,
                                           stick_mode *out_modes);

#endif
