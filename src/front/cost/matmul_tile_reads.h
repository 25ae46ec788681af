// SPDX-License-Identifier: Apache-2.0
//
// What the cost of a matmul takes from the tiles that the back-end will make of it.
#ifndef FRONT_MATMUL_TILE_READS_H
#define FRONT_MATMUL_TILE_READS_H

#include "front/cost/cost_memory.h"

typedef struct {
    double a_reads, b_reads; // times that memory hands an operand over, 1 or more
    double tiles;            // that pass one after the other until the tokens begin anew
    double results;          // tiles that end with a store
    bool keeps;              // B is loaded before a tile passes, and nothing happens meanwhile
} matmul_tile_reads;

// What is divided how.
typedef struct {
    const loop_op *op;
    const division_sizes *sizes;
    const division *d;
    const cost_layout *layout;
    double bytes[3];    // of A, B and the result in memory; 0 for one in LX
    double share_bytes; // of LX that tiles have
    uint32_t resident;  // bits of the operands in LX
    double compute_us;  // of the whole product
} cost_product;

// The tiles of the back-end's share of LX (docs/back.md) that take least: the sums of a tile, and
// what is in memory of two parts of A and B and of the rounded results, must fit; either a part of
// B that has all of k stays while the rows pass by, or both pass by along k.
matmul_tile_reads matmul_tile_reads_of(const cost_product *product);

// Rows that a core works on at once: of variables along which A moves and B does not. An A in LX is
// used in place, so only those of the variable that is densest in it, and of others that go on
// where that one ends, in A and the result; `*out_times` so many times.
double matmul_tile_rows(const cost_product *product, double *out_times);

#endif
