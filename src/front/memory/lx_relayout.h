// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_RELAYOUT_H
#define FRONT_LX_RELAYOUT_H

#include "front/ir/flow.h"
#include "front/ir/loop.h"

// True when shuffles can take the buffer over the ring, whatever its divisions.
bool lx_relayout_may_move(const loop_graph *loops, const flow *f, uint32_t buffer);

// Takes the shuffles out again, for plans on trial.
SPYRE_MUST_CHECK spyre_status lx_relayout_undo(loop_graph *loops);

#endif
