// SPDX-License-Identifier: Apache-2.0
//
// The parts of a model between exchanges, as graphs of one card, and what they take by the timing
// model. Internal to src/estimate.
#ifndef ESTIMATE_MODEL_PARTS_H
#define ESTIMATE_MODEL_PARTS_H

#include "estimate/model.h"

typedef enum {
    PART_EMBEDDING,
    PART_ATTENTION,     // norm, projections, rotary positions, attention, projection
    PART_MLP,           // norm, gated products
    PART_HEAD,          // norm, logits of the last token of each sequence
    PART_COUNT
} estimate_part;

typedef struct {
    uint32_t cards;             // that divide it
    uint32_t sequences, tokens; // at a time, of each
    uint32_t context;           // keys and values, those of `tokens` included
} part_shape;

// Microseconds of the card: all, and of kernels that the memory holds up.
typedef struct {
    double us, memory_us;
} part_cost;

// The prices that were asked for, each once.
typedef struct price_list price_list;
price_list *price_list_create(const estimate_model *m);
void price_list_destroy(price_list *list);
SPYRE_MUST_CHECK spyre_status price_list_find(price_list *list, estimate_part part,
                                              const part_shape *shape, part_cost *out_cost);

#endif
