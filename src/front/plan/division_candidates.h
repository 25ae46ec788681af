// SPDX-License-Identifier: Apache-2.0
//
// The divisions among which an op chooses next to its neighbours:
//     its share of the plan, and the same with the cores left put to use
//     its published division
//     a product: what is cheapest for itself, and what is with everything in LX that may be there
//     as the writer of an operand divides it, or as a reader of the result does
#ifndef FRONT_DIVISION_CANDIDATES_H
#define FRONT_DIVISION_CANDIDATES_H

#include "front/plan/division_price.h"

typedef enum { DIVISION_PUBLISHED, DIVISION_ALONE, DIVISION_RESIDENT, DIVISION_KEPT } division_kind;

// The choice in force is the cheapest of the share, the rest and the kept ones, and has this price,
// as long as no op around has changed.
typedef struct {
    bool known;
    uint64_t turn;
    cost price;
    uint64_t compared[2]; // by direction of the sweep: turn behind its last comparison, plus one
} division_settled;

typedef struct {
    const division_choice *(*kept)[DIVISION_KEPT]; // by op: those of every plan
    uint8_t *kept_count; // by op: DIVISION_KEPT, or 1 when the others are no other ones
    bool *settled;       // by op: what a user or the span limit demands stays
    bool *in_reach;      // by op: no division reaches beyond the span limit
    bool products;       // there is an op that is not settled and has three
    const division_choice **share, **rest; // by op: of the plan; rest may be null
    division_settled *last;                // by op: what it settled for, since it had its share
} division_candidates;

// `p` must be priced already (division_prices_create).
SPYRE_MUST_CHECK spyre_status division_candidates_create(const division_prices *p,
                                                         division_candidates *out);

// Sets the op's share of the plan, and the rest.
void division_offer(const division_prices *p, division_candidates *c, uint32_t op,
                    const division *share);

// The division of an op as the writer of its operand that moves the most, of those that are made
// here, divides it; false when there is none.
bool division_follow_writer(const division_prices *p, uint32_t op, division *out);

typedef struct {
    bool forward; // the writers' divisions are among those of an op, else the readers'
    bool stays;   // the one in force is, too
} division_sweep;

// Puts the cheapest in force; true when it is another one.
bool division_settle(division_prices *p, const division_candidates *c, uint32_t op,
                     division_sweep sweep);

#endif
