// SPDX-License-Identifier: Apache-2.0
//
// Lines: what lies along the innermost dim of a buffer, where it alone is long enough for sticks.
#ifndef FRONT_LONG_LINES_H
#define FRONT_LONG_LINES_H

#include "front/ir/loop.h"

// A part of a line, `count` windows of `size` neighbours each, mostly of one: window i begins at
// index first + step * i of dim 0 of the buffer.
typedef struct {
    uint32_t var, within; // of the op, walk windows and their places; its var_count: there is one
    int64_t first, step, count, size, lanes;
} line_part;

// What the access reaches of each line of its buffer; false where that is no such part.
bool long_lines_find_part(const loop_graph *loops, const loop_op *op, const loop_access *access,
                    line_part *out);

// Whether sticks across `rows` sticks of a line are filled better than sticks along another dim, of
// `other` elements, by so much that copies pay.
bool long_lines_pay(int64_t rows, int64_t other, int64_t lanes);

#endif
