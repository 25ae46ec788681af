// SPDX-License-Identifier: Apache-2.0
//
// The sizes of a decoder model. Internal to src/estimate.
#ifndef ESTIMATE_MODEL_H
#define ESTIMATE_MODEL_H

#include "base/json.h"

typedef struct {
    char kind[32];              // transformers' model_type
    int64_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
} estimate_model;

// From a config.json; INVALID_FORMAT names field and rule, UNSUPPORTED a model_type whose layers
// are others.
SPYRE_MUST_CHECK spyre_status model_read(const json_node *config, estimate_model *out_model);

// Elements of the weights of a layer, and of the embedding or the head.
double model_layer_weights(const estimate_model *m);
double model_vocabulary_weights(const estimate_model *m);

// Heads of keys and values on each of `cards`: those that are fewer lie on several.
int64_t model_kv_heads(const estimate_model *m, uint32_t cards);

#endif
