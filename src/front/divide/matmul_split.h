// SPDX-License-Identifier: Apache-2.0
//
// torch-spyre's published cost of a matmul's split, which its planner minimises. The front's own
// model is front/cost/cost.h.
#ifndef FRONT_MATMUL_SPLIT_H
#define FRONT_MATMUL_SPLIT_H

#include "front/ir/division.h"

// Sizes of a batched product in elements, or slices of them.
typedef struct {
    int64_t b, m, n, k;
} matmul_shape;

// Microseconds of the product `size` when it is cut into `slices`:
//     (compute + hbm + psum + tie) * b^1.4
// Source: docs/source/compiler/work_division_planning.md and torch_spyre/_inductor/work_division.py
// in torch-spyre/torch-spyre; terms in matmul_split.c.
double matmul_published_us(const matmul_shape *size, const matmul_shape *slices);

// The same for a matmul under division d; false where its loops have no clear roles.
bool matmul_published_cost(const loop_graph *loops, const loop_op *op, const division *d,
                           double *out_us);

#endif
