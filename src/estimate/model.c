// SPDX-License-Identifier: Apache-2.0
#include "estimate/model.h"

#include <stdio.h>
#include <string.h>

enum { MOST_SIZE = 1 << 20, MOST_LAYERS = 1024, MOST_HEADS = 4096 };

// Pre-normalised layers of grouped-query attention with rotary positions and of a gated MLP.
static const char *const KINDS[] = {"llama", "mistral"};

static spyre_status read_kind(const json_node *config, estimate_model *m)
{
    const char *kind;
    json_node field;
    TRY(json_get_string(config, "model_type", &kind));
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (strcmp(kind, KINDS[i])) continue;
        snprintf(m->kind, sizeof m->kind, "%s", kind);
        return NULL;
    }
    TRY(json_member(config, "model_type", &field));
    return json_error_at(&field, "\"%s\": must be \"llama\" or \"mistral\"", kind);
}

// A size that may be missing or null.
static spyre_status read_optional(const json_node *config, const char *key, int64_t most,
                                  int64_t otherwise, int64_t *out)
{
    json_node field;
    *out = otherwise;
    if (!json_find(config, key, &field) || json_is_null(field.value)) return NULL;
    return json_get_int(config, key, 1, most, out);
}

static spyre_status check(const json_node *config, const estimate_model *m)
{
    if (m->head_dim == 0)
        return json_error_at(config, "hidden_size %lld is no multiple of num_attention_heads %lld",
                             (long long)m->hidden, (long long)m->heads);
    if (m->head_dim % 2)
        return json_error_at(config, "head_dim %lld: must be even", (long long)m->head_dim);
    if (m->heads % m->kv_heads)
        return json_error_at(config, "num_attention_heads %lld is no multiple of "
                             "num_key_value_heads %lld", (long long)m->heads,
                             (long long)m->kv_heads);
    return NULL;
}

spyre_status model_read(const json_node *config, estimate_model *m)
{
    memset(m, 0, sizeof *m);
    TRY(json_expect_object(config));
    TRY(read_kind(config, m));
    TRY(json_get_int(config, "num_hidden_layers", 1, MOST_LAYERS, &m->layers));
    TRY(json_get_int(config, "hidden_size", 1, MOST_SIZE, &m->hidden));
    TRY(json_get_int(config, "num_attention_heads", 1, MOST_HEADS, &m->heads));
    TRY(json_get_int(config, "intermediate_size", 1, MOST_SIZE, &m->intermediate));
    TRY(json_get_int(config, "vocab_size", 1, 16 * MOST_SIZE, &m->vocabulary));
    TRY(read_optional(config, "num_key_value_heads", m->heads, m->heads, &m->kv_heads));
    int64_t each = m->hidden % m->heads ? 0 : m->hidden / m->heads;
    TRY(read_optional(config, "head_dim", MOST_SIZE, each, &m->head_dim));
    return check(config, m);
}

double model_layer_weights(const estimate_model *m)
{
    double attention = 2.0 * (double)((m->heads + m->kv_heads) * m->head_dim);
    return (attention + 3.0 * (double)m->intermediate + 2) * (double)m->hidden;
}

double model_vocabulary_weights(const estimate_model *m)
{
    return (double)m->vocabulary * (double)m->hidden;
}

int64_t model_kv_heads(const estimate_model *m, uint32_t cards)
{
    return m->kv_heads > (int64_t)cards ? m->kv_heads / cards : 1;
}
