// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_TRIAL_H
#define FRONT_LX_TRIAL_H

#include "front/ir/division.h"

// The graph's time when ops [begin, end) have these divisions, by op, and clones, shuffles and
// places in LX are planned anew; `divisions` is not read when there are no such ops.
SPYRE_MUST_CHECK spyre_status lx_trial_us(const loop_graph *loops, const division *divisions,
                                          uint32_t begin, uint32_t end, double *out_us);

// Divides ops [begin, end) by agreement, those that are divided otherwise; true when some are.
bool lx_trial_take(loop_graph *loops, const division *divisions, uint32_t begin, uint32_t end);

#endif
