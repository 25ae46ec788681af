// SPDX-License-Identifier: Apache-2.0
//
// The divisions among which an op chooses next to its neighbours:
//     its share of the plan, and the same with the cores left put to use
//     its published division
//     a product: what is cheapest for itself, and what is with everything in LX that may be there
//     as the writer of an operand divides it, or as a reader of the result does
#ifndef FRONT_AGREE_CANDIDATES_H
#define FRONT_AGREE_CANDIDATES_H

#include "front/agree_price.h"

typedef enum { AGREE_PUBLISHED, AGREE_ALONE, AGREE_RESIDENT, AGREE_KEPT } agree_kind;

typedef struct {
    agree_choice (*kept)[AGREE_KEPT]; // by op: those of every plan
    uint8_t *kept_count;              // by op: AGREE_KEPT, or 1 when the others are no other ones
    bool *settled;                    // by op: what a user or the span limit demands stays
    bool *in_reach;                   // by op: no division reaches beyond the span limit
    bool products;                    // there is an op that is not settled and has three
    agree_choice *own;                // by op: room for two
    const agree_choice **share, **rest; // by op: of the plan; rest may be null
} agree_candidates;

// `p` must be priced already (agree_prices_create).
SPYRE_MUST_CHECK spyre_status agree_candidates_create(const agree_prices *p, agree_candidates *out);

// Sets the op's share of the plan, and the rest.
void agree_offer(const agree_prices *p, agree_candidates *c, uint32_t op, const division *share);

// Puts the cheapest in force; `forward`: among them the writers' divisions, else the readers'.
void agree_settle(agree_prices *p, const agree_candidates *c, uint32_t op, bool forward);

#endif
