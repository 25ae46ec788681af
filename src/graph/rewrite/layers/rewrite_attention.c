// SPDX-License-Identifier: Apache-2.0
//
// Scaled dot product attention: softmax(q k^T scale + mask) v. The scale goes to q, so that scores
// are small before they are rounded; k is used as it is. Query heads that share a key head (grouped
// queries) become rows of one matrix: no copy of k or v.
#include <math.h>

#include "graph/rewrite/rewrite.h"

typedef struct {
    bool causal;
    attention_heads heads;
    int64_t keys, width;
    graph_number scale;
} attention;

spyre_status rewrite_group_heads(attention_heads *h)
{
    if (h->heads % h->key_heads != 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "%lld query heads for %lld key heads",
                          (long long)h->heads, (long long)h->key_heads);
    h->group = h->heads / h->key_heads;
    return NULL;
}

spyre_status make_regrouped(rewriter *r, const attention_heads *h, const tensor *x, bool to_groups,
                            tensor *out)
{
    int64_t sizes[4] = {h->batch, to_groups ? h->key_heads : h->heads,
                        to_groups ? h->group * h->queries : h->queries, x->view.size[3]};
    if (h->group > 1) return make_reshape(r, x, sizes, 4, out);
    *out = *x;
    return NULL;
}

spyre_status make_seen_scores(rewriter *r, const tensor *mask, tensor *scores)
{
    tensor never;
    TRY(make_constant(r, -HUGE_VAL, scores->dtype, &never));
    return make_where(r, mask, scores, &never, NULL, scores);
}

static spyre_status load_options(rewriter *r, attention *a)
{
    bool is_override = r->from->op == ATEN_ATTENTION_OVERRIDE;
    double dropout;
    TRY(graph_arg_real(r->source, r->node, 4, 0, &dropout));
    TRY(graph_arg_bool(r->source, r->node, 5, false, &a->causal));
    TRY(graph_arg_number(r->source, r->node, is_override ? 7 : 6, 1 / sqrt((double)a->width),
                         &a->scale));
    if (dropout != 0) {
        return status_new(SPYRE_UNSUPPORTED, "dropout %g, the card has no random numbers", dropout);
    }
    if (a->scale.value > 0) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "a scale of %g", a->scale.value);
}

static spyre_status load_shape(const tensor *q, const tensor *k, const tensor *v, attention *a)
{
    if (q->view.rank != 4 || k->view.rank != 4 || v->view.rank != 4) {
        return status_new(SPYRE_UNSUPPORTED, "ranks %u, %u, %u, only 4 is supported", q->view.rank,
                          k->view.rank, v->view.rank);
    }
    *a = (attention){.heads = {.batch = q->view.size[0],
                               .heads = q->view.size[1],
                               .key_heads = k->view.size[1],
                               .queries = q->view.size[2]},
                     .keys = k->view.size[2],
                     .width = q->view.size[3]};
    if (a->width != k->view.size[3] || a->keys != v->view.size[2]) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "queries of width %lld, keys of width %lld; %lld keys, %lld values",
                          (long long)a->width, (long long)k->view.size[3], (long long)a->keys,
                          (long long)v->view.size[2]);
    }
    bool fits = k->view.size[0] == q->view.size[0] && v->view.size[0] == q->view.size[0] &&
                v->view.size[1] == k->view.size[1];
    if (!fits) return status_new(SPYRE_UNSUPPORTED, "sizes of query, key and value that differ");
    return rewrite_group_heads(&a->heads);
}

// [queries, keys]: true where the key is not behind the query. Made once a graph for each size.
static spyre_status make_causal_mask(rewriter *r, int64_t queries, int64_t keys, tensor *out)
{
    tensor counts, rows, columns;
    for (uint32_t i = 0; i < r->causal_masks.count; i++) {
        const tensor *known = &r->causal_masks.items[i];
        if (known->view.size[0] != queries || known->view.size[1] != keys) continue;
        *out = *known;
        return NULL;
    }
    TRY(make_count(r, queries > keys ? queries : keys, &counts));
    TRY(make_slice(r, &counts, 0, 0, queries, &rows));
    TRY(make_unsqueeze(r, &rows, 1, &rows));
    TRY(make_slice(r, &counts, 0, 0, keys, &columns));
    TRY(make_binary(r, ATEN_SPYRE_LESSEREQUAL, &columns, &rows, NULL, out));
    return VEC_PUSH(r->target->memory, &r->causal_masks, *out);
}

// A mask of bools keeps what is true; any other is added.
static spyre_status apply_mask(rewriter *r, tensor *scores, bool *out_masked)
{
    tensor mask;
    const spyre_view sizes = scores->view;
    TRY(rewrite_optional(r, 3, out_masked, &mask));
    if (!*out_masked) return NULL;
    if (mask.dtype == SPYRE_DTYPE_BOOL) {
        TRY(make_seen_scores(r, &mask, scores));
    } else {
        TRY(rewrite_operand(r, 3, scores->dtype, &mask));
        TRY(make_binary(r, ATEN_SPYRE_ADD, scores, &mask, NULL, scores));
    }
    if (view_same_sizes(&sizes, &scores->view)) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "operand 3: the mask does not broadcast to the "
                                              "scores");
}

static spyre_status apply_masks(rewriter *r, const attention *a, tensor *scores, bool *out_masked)
{
    tensor mask;
    TRY(apply_mask(r, scores, out_masked));
    if (!a->causal) return NULL;
    TRY(make_causal_mask(r, a->heads.queries, a->keys, &mask));
    return make_seen_scores(r, &mask, scores);
}

spyre_status rewrite_attention(rewriter *r)
{
    tensor q, k, v, keys, rows, scores, weights, result, into;
    attention a;
    bool masked;
    TRY(rewrite_only_result(r, 0));
    TRY(rewrite_same_dtypes(r, 0, 3));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &q));
    TRY(rewrite_operand(r, 1, into.dtype, &k));
    TRY(rewrite_operand(r, 2, into.dtype, &v));
    TRY(load_shape(&q, &k, &v, &a));
    TRY(load_options(r, &a));
    TRY(make_with_number(r, ATEN_SPYRE_MUL, &q, &a.scale, NULL, &q));
    TRY(make_regrouped(r, &a.heads, &q, true, &rows));
    TRY(make_transpose(r, &k, 2, 3, &keys));
    TRY(make_matmul(r, &rows, &keys, NULL, &scores));
    TRY(make_regrouped(r, &a.heads, &scores, false, &scores));
    TRY(apply_masks(r, &a, &scores, &masked));
    TRY(make_softmax(r, &scores, 3, masked, NULL, &weights));
    TRY(make_regrouped(r, &a.heads, &weights, true, &rows));
    if (a.heads.group == 1) return make_matmul(r, &rows, &v, &into, NULL);
    TRY(make_matmul(r, &rows, &v, NULL, &result));
    return rewrite_finish(r, &result, &into);
}
