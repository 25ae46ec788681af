// SPDX-License-Identifier: Apache-2.0
//
// What the cost of a matmul takes from the tiles that the back-end will make of it.
#ifndef FRONT_COST_MATMUL_H
#define FRONT_COST_MATMUL_H

#include "front/cost_memory.h"

typedef struct {
    double a_reads, b_reads; // times that memory hands an operand over, 1 or more
    double tiles;            // that pass one after the other until the tokens begin anew
    double results;          // tiles that end with a store
    bool keeps;              // B is loaded before a tile passes, and nothing happens meanwhile
} cost_matmul;

// What is divided how.
typedef struct {
    const loop_op *op;
    const division_sizes *sizes;
    const division *d;
    const cost_layout *layout;
    double bytes[3];    // of A, B and the result in memory; 0 for one in LX
    double share_bytes; // of LX that tiles have
    double compute_us;  // of the whole product
} cost_product;

// The tiles of the back-end's share of LX (docs/back.md) that take least: the sums of a tile, and
// what is in memory of two parts of A and B and of the rounded results, must fit; either a part of B
// that has all of k stays while the rows pass by, or both pass by along k.
cost_matmul cost_matmul_of(const cost_product *product);

// Rows that a core works on: of variables along which A moves and B does not.
double cost_matmul_rows(const loop_op *op, const division_sizes *sizes, const division *d);

#endif
