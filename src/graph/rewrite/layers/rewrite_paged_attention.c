// SPDX-License-Identifier: Apache-2.0
//
// Attention over a paged KV cache. The cache is a table with a row for each slot; which rows a
// sequence reads is data, so they are gathered. The keys of this call are not in the cache yet:
// they are a second part of the same softmax, so that nothing has to be written before it is read.
//
//     scores      = [q k_cached^T | q k_fresh^T] scale, -inf where a query does not see the key
//     weights     = softmax over both parts (and the sink, a score of its own without a value)
//     attention   = weights_cached v_cached + weights_fresh v_fresh
//
// Keys and values may be of eight bits: numbers that a sequence's scales multiply.
//
// Query heads that share a key head become rows of one matrix, as in rewrite_attention.c.
#include <math.h>

#include "graph/rewrite/rewrite.h"

// Operands of spyre.paged_attention.
enum { QUERY, KEY, VALUE, KEY_ROWS, VALUE_ROWS, ROWS, SEEN, FRESH, SCALE, SINKS, KEY_SCALE,
       VALUE_SCALE };

typedef struct {
    attention_heads heads;
    int64_t width, cached;
    double scale;
} paged;

// Keys or values as [batch, key heads, keys, width], and which of them a query sees.
typedef struct {
    tensor key, value, mask;
    tensor scores, largest, power, sum; // [batch, heads, queries, keys], the others keys = 1
} part;

static spyre_status expect_sizes(const tensor *x, uint32_t operand, const int64_t *size,
                                 uint32_t rank)
{
    bool fits = x->view.rank == rank;
    for (uint32_t i = 0; fits && i < rank; i++) fits = x->view.size[i] == size[i];
    if (fits) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "operand %u: sizes that the query does not have",
                      operand);
}

static spyre_status load_sizes(rewriter *r, const tensor *query, paged *p)
{
    tensor key, rows;
    TRY(rewrite_tensor(r, KEY, &key));
    TRY(rewrite_tensor(r, ROWS, &rows));
    if (query->view.rank != 4 || key.view.rank != 4 || rows.view.rank != 2) {
        return status_new(SPYRE_INVALID_ARGUMENT, "ranks %u, %u, %u of query, key and rows, "
                                                  "expected 4, 4, 2",
                          query->view.rank, key.view.rank, rows.view.rank);
    }
    *p = (paged){.heads = {.batch = query->view.size[0],
                           .heads = query->view.size[2],
                           .key_heads = key.view.size[2],
                           .queries = query->view.size[1]},
                 .width = query->view.size[3],
                 .cached = rows.view.size[1]};
    TRY(rewrite_group_heads(&p->heads));
    return graph_arg_real(r->source, r->node, SCALE, 1 / sqrt((double)p->width), &p->scale);
}

// [batch, keys, key heads, width] as [batch, key heads, keys, width].
static spyre_status heads_first(rewriter *r, const tensor *x, tensor *out)
{
    return make_transpose(r, x, 1, 2, out);
}

// The same, of keys or values as they are multiplied: of `dtype`, times the scales [batch].
static spyre_status load_numbers(rewriter *r, const paged *p, const tensor *x, uint32_t scales,
                                 spyre_dtype dtype, tensor *out)
{
    bool is_scaled;
    tensor scale, numbers;
    TRY(make_cast(r, x, dtype, NULL, &numbers));
    TRY(rewrite_optional(r, scales, &is_scaled, &scale));
    if (is_scaled) {
        TRY(rewrite_operand(r, scales, dtype, &scale));
        TRY(expect_sizes(&scale, scales, &p->heads.batch, 1));
        TRY(make_reshape(r, &scale, (int64_t[]){p->heads.batch, 1, 1, 1}, 4, &scale));
        TRY(make_binary(r, ATEN_SPYRE_MUL, &numbers, &scale, NULL, &numbers));
    }
    return heads_first(r, &numbers, out);
}

// The rows of a cache that the sequences read.
static spyre_status load_cached(rewriter *r, const paged *p, uint32_t operand, uint32_t scales,
                                spyre_dtype dtype, const tensor *rows, tensor *out)
{
    tensor table, taken;
    const int64_t sizes[4] = {p->heads.batch, p->cached, p->heads.key_heads, p->width};
    TRY(rewrite_tensor(r, operand, &table));
    if (table.view.rank != 2 || table.view.size[1] != p->heads.key_heads * p->width) {
        return status_new(SPYRE_INVALID_ARGUMENT, "operand %u: no table of %lld keys wide %lld",
                          operand, (long long)p->heads.key_heads, (long long)p->width);
    }
    TRY(make_gather(r, &table, rows, NULL, &taken));
    TRY(make_reshape(r, &taken, sizes, 4, &taken));
    return load_numbers(r, p, &taken, scales, dtype, out);
}

static spyre_status load_mask(rewriter *r, const paged *p, uint32_t operand, int64_t keys,
                              tensor *out)
{
    TRY(rewrite_tensor(r, operand, out));
    TRY(expect_sizes(out, operand, (int64_t[]){p->heads.batch, p->heads.queries, keys}, 3));
    if (out->dtype != SPYRE_DTYPE_BOOL)
        return status_new(SPYRE_INVALID_ARGUMENT, "operand %u: no mask of bools", operand);
    return make_unsqueeze(r, out, 1, out);
}

// Keys or values, cached and fresh. They are gathered right before they are multiplied, so that a
// core still has them at hand.
static spyre_status load_both(rewriter *r, const paged *p, bool values, spyre_dtype dtype,
                              tensor *out_cached, tensor *out_fresh)
{
    const uint32_t fresh = values ? VALUE : KEY, table = values ? VALUE_ROWS : KEY_ROWS;
    const uint32_t scales = values ? VALUE_SCALE : KEY_SCALE;
    const int64_t sizes[4] = {p->heads.batch, p->heads.queries, p->heads.key_heads, p->width};
    tensor rows;
    TRY(rewrite_tensor(r, ROWS, &rows));
    TRY(expect_sizes(&rows, ROWS, (int64_t[]){p->heads.batch, p->cached}, 2));
    TRY(load_cached(r, p, table, scales, dtype, &rows, out_cached));
    TRY(rewrite_tensor(r, fresh, out_fresh));
    TRY(expect_sizes(out_fresh, fresh, sizes, 4));
    return load_numbers(r, p, out_fresh, scales, dtype, out_fresh);
}

static spyre_status make_scores(rewriter *r, const paged *p, const tensor *query, part *x)
{
    static const bool reduced[SPYRE_MAX_RANK] = {[3] = true};
    tensor keys;
    TRY(make_transpose(r, &x->key, 2, 3, &keys));
    TRY(make_matmul(r, query, &keys, NULL, &x->scores));
    TRY(make_regrouped(r, &p->heads, &x->scores, false, &x->scores));
    TRY(make_seen_scores(r, &x->mask, &x->scores));
    return make_reduction(r, ATEN_SPYRE_MAX, &x->scores, reduced, true, NULL, &x->largest);
}

static spyre_status make_powers(rewriter *r, const tensor *largest, part *x)
{
    static const bool reduced[SPYRE_MAX_RANK] = {[3] = true};
    tensor shifted;
    TRY(make_binary(r, ATEN_SPYRE_SUB, &x->scores, largest, NULL, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_EXP, &shifted, NULL, &x->power));
    return make_reduction(r, ATEN_SPYRE_SUM, &x->power, reduced, true, NULL, &x->sum);
}

// The sinks as scores [heads, 1, 1].
static spyre_status load_sinks(rewriter *r, const paged *p, spyre_dtype dtype, bool *out_present,
                               tensor *out)
{
    TRY(rewrite_optional(r, SINKS, out_present, out));
    if (!*out_present) return NULL;
    TRY(rewrite_operand(r, SINKS, dtype, out));
    TRY(expect_sizes(out, SINKS, &p->heads.heads, 1));
    return make_reshape(r, out, (int64_t[]){p->heads.heads, 1, 1}, 3, out);
}

// The powers of both parts and their sum. As in a safe softmax, a query that sees no key has
// weights of 0.
static spyre_status make_softmax_of_parts(rewriter *r, const paged *p, part x[2], tensor *sum)
{
    tensor largest, sink, power;
    bool has_sinks;
    TRY(make_binary(r, ATEN_SPYRE_MAXIMUM, &x[0].largest, &x[1].largest, NULL, &largest));
    TRY(load_sinks(r, p, largest.dtype, &has_sinks, &sink));
    if (has_sinks) TRY(make_binary(r, ATEN_SPYRE_MAXIMUM, &largest, &sink, NULL, &largest));
    TRY(make_with(r, ATEN_SPYRE_MAXIMUM, &largest, -8e9, NULL, &largest));
    for (uint32_t i = 0; i < 2; i++) TRY(make_powers(r, &largest, &x[i]));
    TRY(make_binary(r, ATEN_SPYRE_ADD, &x[0].sum, &x[1].sum, NULL, sum));
    if (has_sinks) {
        TRY(make_binary(r, ATEN_SPYRE_SUB, &sink, &largest, NULL, &power));
        TRY(make_unary(r, ATEN_SPYRE_EXP, &power, NULL, &power));
        TRY(make_binary(r, ATEN_SPYRE_ADD, sum, &power, NULL, sum));
    }
    return make_with(r, ATEN_SPYRE_MAXIMUM, sum, 0.5, NULL, sum);
}

static spyre_status make_weights(rewriter *r, const paged *p, const tensor *sum, const part *x,
                                 tensor *out)
{
    TRY(make_binary(r, ATEN_SPYRE_REALDIV, &x->power, sum, NULL, out));
    return make_regrouped(r, &p->heads, out, true, out);
}

spyre_status rewrite_paged_attention(rewriter *r)
{
    paged p;
    part parts[2];
    tensor query, sum, weights[2], of_cached, of_fresh, result, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, QUERY, into.dtype, &query));
    TRY(load_sizes(r, &query, &p));
    TRY(make_with(r, ATEN_SPYRE_MUL, &query, p.scale, NULL, &query));
    TRY(heads_first(r, &query, &query));
    TRY(make_regrouped(r, &p.heads, &query, true, &query));
    TRY(load_mask(r, &p, SEEN, p.cached, &parts[0].mask));
    TRY(load_mask(r, &p, FRESH, p.heads.queries, &parts[1].mask));
    TRY(load_both(r, &p, false, into.dtype, &parts[0].key, &parts[1].key));
    for (uint32_t i = 0; i < 2; i++) TRY(make_scores(r, &p, &query, &parts[i]));
    TRY(make_softmax_of_parts(r, &p, parts, &sum));
    for (uint32_t i = 0; i < 2; i++) TRY(make_weights(r, &p, &sum, &parts[i], &weights[i]));
    TRY(load_both(r, &p, true, into.dtype, &parts[0].value, &parts[1].value));
    TRY(make_matmul(r, &weights[0], &parts[0].value, NULL, &of_cached));
    TRY(make_matmul(r, &weights[1], &parts[1].value, NULL, &of_fresh));
    TRY(make_binary(r, ATEN_SPYRE_ADD, &of_cached, &of_fresh, NULL, &result));
    TRY(make_regrouped(r, &p.heads, &result, false, &result));
    TRY(heads_first(r, &result, &result));
    return rewrite_finish(r, &result, &into);
}
