// SPDX-License-Identifier: Apache-2.0
//
// What accumulate_matmuls.c and accumulate_terms.c know of MATMULs that become one product. Private
// to these.
#ifndef CARD_ACCUMULATE_H
#define CARD_ACCUMULATE_H

#include "card/pass/forward.h"

enum { MOST_TERMS = 8 };

// A MATMUL along k, and the LOAD of its rows that goes with it or null.
typedef struct {
    uint32_t matmul;
    const lx_access *load;
} match_term;

typedef struct {
    forwarding *f;
    uint32_t begin, end;                    // the kernel's code
    uint32_t first, last;                   // the instructions that the product stands for
    uint32_t fill, round;
    match_term term[MOST_TERMS];            // in their order along k
    uint32_t terms;
    uint32_t depth;                         // loops that stay around it
    plan_tile result;                       // of the VECTOR; loops taken in are further dims
    isa_instruction *work;
    product *product;
} match;

// The nearest steps on both sides of what the product stands for. False when there is none on one
// of them.
bool match_neighbours(const match *m, uint32_t *before, uint32_t *behind);

// A loop that holds nothing but the match.
bool match_inside_loop(const match *m, uint32_t *before, uint32_t *behind);

// Of LX; null when the instruction's operand lies elsewhere.
const lx_access *match_access(const match *m, uint32_t at, uint32_t operand);

// The product along k that begins with a MATMUL: it, its rows' LOAD, the loops around them and the
// MATMULs behind that add to the same sums.
SPYRE_MUST_CHECK spyre_status match_terms(match *m, uint32_t at);

#endif
