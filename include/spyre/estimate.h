// SPDX-License-Identifier: Apache-2.0
//
// What a decoder model would take on many cards, without one: the graphs of its layers are compiled
// for the parts that cards get, their time is the timing model's, and the timeline of pipeline
// stages, micro-batches and what cards exchange is simulated (docs/estimate.md).
#ifndef SPYRE_ESTIMATE_H
#define SPYRE_ESTIMATE_H

#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_ESTIMATE_MOST_CARDS = 4096 };

typedef struct {
    uint32_t cards;             // 1 .. SPYRE_ESTIMATE_MOST_CARDS
    uint32_t tensor, pipeline;  // cards that divide a layer, stages; 0: every power of two
    uint32_t batch;             // sequences that one copy of the model works on, 1 .. 4096
    uint32_t prompt;            // tokens of a sequence in the prefill
    uint32_t context;           // tokens that a step of decoding attends to, at least the prompt's
} spyre_estimate_options;

// 8 cards, every division, 16 sequences, prompts of 2048 tokens, contexts of 4096.
SPYRE_API spyre_estimate_options spyre_estimate_options_default(void);

// Estimates the model of a configuration as transformers writes it (config.json of a Llama or
// Mistral). The table has a row a division of the cards; the picture is an SVG with a bar each. The
// caller frees both with spyre_string_free(). INVALID_ARGUMENT and INVALID_FORMAT name option or
// field and rule.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_estimate(const char *config_path,
                                                       const spyre_estimate_options *options,
                                                       char **out_table, char **out_picture);

#ifdef __cplusplus
}
#endif
#endif
