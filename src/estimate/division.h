// SPDX-License-Identifier: Apache-2.0
//
// One way to divide the cards, and what it takes. Internal to src/estimate.
#ifndef ESTIMATE_DIVISION_H
#define ESTIMATE_DIVISION_H

#include "estimate/model_parts.h"
#include "spyre/estimate.h"

// Of all micro-batches of a copy of the model, of the busiest stage. Microseconds.
typedef struct {
    uint32_t micro_batches;
    double us;                  // prefill of the batch; a step of decoding
    double compute_us;          // its cards' kernels that units hold up
    double memory_us;           // .. that the memory holds up
    double exchange_us, hidden_us;      // its links; while the cards work
} phase_cost;

typedef struct {
    uint32_t tensor, pipeline, copies;
    double bytes;               // of weights and cache on the fullest card
    bool fits;                  // the rest is nothing otherwise
    phase_cost prefill, decode;
} division;

// Whether the model can be divided so; `reason` gets a sentence otherwise.
bool division_is_possible(const estimate_model *m, const spyre_estimate_options *o,
                          uint32_t tensor, uint32_t pipeline, char reason[160]);

// Prices `d`, whose first three members are given.
SPYRE_MUST_CHECK spyre_status division_price(const estimate_model *m,
                                             const spyre_estimate_options *o, price_list *prices,
                                             division *d);

#endif
