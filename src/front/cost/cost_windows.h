// SPDX-License-Identifier: Apache-2.0
//
// What a reduction over windows reads of its input: windows of a tile that overlap have places in
// common, which the back-end loads once (src/back/place_windows.c).
#ifndef FRONT_COST_WINDOWS_H
#define FRONT_COST_WINDOWS_H

#include "front/ir/division.h"
#include "front/ir/loop.h"

// Of an op, the loops over windows, those over the innermost dim first.
typedef struct {
    uint32_t count;
    struct {
        uint8_t windows, taps;
        int64_t step, tap;                  // places from one window, or tap, to the next
    } of[LOOP_MAX_VARS];
} cost_windows;

// None of an op that is no reduction: a product reads each tap's windows by themselves.
cost_windows cost_windows_of(const loop_graph *loops, const loop_op *op);

// Bytes of operands 0 and 1 that the cores read, for each byte that all windows' taps are (operand
// 0), or that there is (operand 1, which each tile loads).
typedef struct {
    double input, factor;
} cost_window_reads;
cost_window_reads cost_windows_read(const loop_op *op, const cost_windows *w,
                                    const division_sizes *sizes, const division *d,
                                    double share_bytes);

#endif
