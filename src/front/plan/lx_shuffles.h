// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_SHUFFLES_H
#define FRONT_LX_SHUFFLES_H

#include "front/ir/def_use.h"
#include "front/plan/lx_copies.h"

// True when shuffles can take the buffer over the ring, whatever its divisions.
bool lx_shuffles_may_move(const loop_graph *loops, const def_use *f, uint32_t buffer);

// Finds the candidates that gain by themselves; none where the settings rule them out.
SPYRE_MUST_CHECK spyre_status lx_shuffles_find(const loop_graph *loops, lx_copies *out);

// Takes the shuffles of a plan out again.
SPYRE_MUST_CHECK spyre_status lx_shuffles_undo(loop_graph *loops);

#endif
