// SPDX-License-Identifier: Apache-2.0
//
// What one decision of the planners, taken otherwise, would change: for people who want to know
// what an op's time depends on. Times are those of front/cost/cost.h with buffers where they are.
#ifndef FRONT_ALTERNATIVES_H
#define FRONT_ALTERNATIVES_H

#include "front/cost/cost.h"
#include "front/ir/def_use.h"

typedef struct {
    const char *change; // "%h (b3) stayed in LX (in memory: LX is full; for that %g (b2) has to
                        // leave)"; completes "if .."
    double saved_us;    // of the whole graph's time
} alternative;

enum { ALTERNATIVES_MOST = 3 };

typedef struct {
    uint32_t count; // best first
    alternative best[ALTERNATIVES_MOST];
} alternatives;

// What would save more than `least_us`:
//   - a result or operand that stays in LX, whatever keeps it in memory now
//   - the division of the op with the least time next to its neighbours, LX planned anew
//   - no restickify, for the op that is one
// Takes up to one LX planning. `loops` is the final loop IR, `f` its def_use; both stay unchanged.
// Strings come from `memory`.
SPYRE_MUST_CHECK spyre_status alternatives_find(const loop_graph *loops, const def_use *f,
                                                uint32_t op, double least_us, arena *memory,
                                                alternatives *out);

#endif
