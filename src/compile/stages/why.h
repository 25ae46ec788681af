// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a segment goes and what would save some: the stage text "why". Internal to
// src/compile.
#ifndef COMPILE_WHY_H
#define COMPILE_WHY_H

#include "front/ir/loop.h"
#include "spyre/counters.h"

// One block an op of the final loop IR: its kernels with their modelled time, its share of the
// segment and what binds it, then up to three changes of one decision that save more than 2 % of
// the op's time by the planner's cost model. At the end the sum and the roofline. `kernels` are the
// counters of the segment's program, [count + 1], named "<op>_<opfunc>".
SPYRE_MUST_CHECK spyre_status why_print(const loop_graph *loops,
                                        const spyre_kernel_counters *kernels, uint32_t count,
                                        text *out);

#endif
