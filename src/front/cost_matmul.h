// SPDX-License-Identifier: Apache-2.0
//
// What the cost of a matmul takes from the tiles that the back-end will make of it.
#ifndef FRONT_COST_MATMUL_H
#define FRONT_COST_MATMUL_H

#include "front/division.h"

typedef struct {
    double a_reads, b_reads; // times that memory hands an operand over, 1 or more
    double tiles;            // that pass through a core one after the other
    double results;          // of them, those that end with a store
} cost_matmul;

// The tiles of the back-end's share of LX (docs/back.md) that read least: the sums of a tile, two
// parts of A and B, and the rounded results must fit; either a part of B that has all of k stays
// while the rows pass by, or both pass by along k.
cost_matmul cost_matmul_of(const loop_op *op, const division_sizes *sizes, const division *d,
                           const double bytes[3], double share_bytes);

// Rows that a core works on: of variables along which A moves and B does not.
double cost_matmul_rows(const loop_op *op, const division_sizes *sizes, const division *d);

#endif
