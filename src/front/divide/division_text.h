// SPDX-License-Identifier: Apache-2.0
//
// A division as torch-spyre passes it on (op_it_space_splits): slices by the coefficient of a loop
// in an index expression, so that it holds whatever the loops are called. A result loop goes by its
// coefficient in the result's index, a reduced one by that in the first input that it moves. Loops
// that are whole are left out.
#ifndef FRONT_DIVISION_TEXT_H
#define FRONT_DIVISION_TEXT_H

#include "front/ir/division.h"

typedef struct {
    bool reduced;
    int64_t coefficient; // host elements a step
    int32_t slices;      // 2 or more
} division_split;

// Returns the number of splits: result loops first, in the order of the loops.
uint32_t division_splits_of(const loop_op *op, const division *d,
                            division_split out[LOOP_MAX_VARS]);

// "batchmatmul ({4096: 16}, {1: 2})", one line an op.
void division_splits_print(const loop_graph *loops, text *out);

#endif
