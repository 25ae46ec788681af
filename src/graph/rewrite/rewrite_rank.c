// SPDX-License-Identifier: Apache-2.0
//
// The largest and the smallest elements and where they are. The card ranks the largest; the
// smallest are the largest of what descends where x ascends: -x, of integers -1 - x, which does not
// overflow. So a NaN is the first of both; among equal elements the one at the least position is.
#include "graph/rewrite/rewrite.h"

enum { MOST_RANKED = 128 }; // torch-spyre's limit, torch_spyre/_inductor/decompositions.py

static spyre_status make_descending(rewriter *r, const tensor *x, tensor *out)
{
    tensor all;
    bool integer = x->dtype == SPYRE_DTYPE_I32 || x->dtype == SPYRE_DTYPE_I64;
    if (!integer) return make_unary(r, ATEN_SPYRE_NEG, x, NULL, out);
    TRY(make_constant(r, -1, x->dtype, &all));
    return make_binary(r, ATEN_SPYRE_SUB, &all, x, NULL, out);
}

// What is ranked: a tensor of rank 1 or more whose elements are apart.
static spyre_status make_candidates(rewriter *r, const tensor *x, bool largest, tensor *out)
{
    static const int64_t one = 1;
    TRY(make_cast(r, x, x->dtype == SPYRE_DTYPE_BOOL ? SPYRE_DTYPE_F16 : x->dtype, NULL, out));
    if (x->view.rank == 0) TRY(make_reshape(r, out, &one, 1, out));
    for (uint32_t i = 0; i < out->view.rank; i++) {
        if (out->view.stride[i] || out->view.size[i] == 1) continue;
        TRY(make_copy(r, out, NULL, out));
    }
    return largest ? NULL : make_descending(r, out, out);
}

// The positions of the first k, int64.
static spyre_status make_positions(rewriter *r, const tensor *candidates, int64_t k, uint32_t dim,
                                   tensor *out)
{
    spyre_view sizes = candidates->view;
    sizes.size[dim] = k;
    if (candidates->view.size[dim] == 1)
        return make_full(r, 0, SPYRE_DTYPE_I64, &sizes, NULL, out);
    return make_rank(r, ATEN_SPYRE_TOPKINDEX, candidates, k, dim, NULL, out);
}

static spyre_status make_extreme(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    bool reduced[SPYRE_MAX_RANK] = {false};
    reduced[dim] = x->view.rank > 0;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    return make_reduced(r, op, x, reduced, true, NULL, out);
}

static bool wants_largest(const rewriter *r)
{
    return aten_describe((aten_op)r->from->op)->opfunc == OPFUNC_MAX;
}

// max.dim, min.dim: values, and positions when they are used.
spyre_status rewrite_extreme(rewriter *r)
{
    tensor x, values, candidates, positions, into;
    uint32_t dim;
    bool with_positions = rewrite_uses(r, 1);
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    TRY(make_extreme(r, &x, dim, &values));
    TRY(rewrite_finish(r, &values, &into));
    if (!with_positions) return NULL;
    TRY(make_candidates(r, &x, wants_largest(r), &candidates));
    TRY(make_positions(r, &candidates, 1, dim, &positions));
    TRY(rewrite_result(r, 1, &into));
    return rewrite_finish(r, &positions, &into);
}

// argmax, argmin: without a dim, of all elements in order.
spyre_status rewrite_index_of(rewriter *r)
{
    tensor x, candidates, positions, into;
    uint32_t dim = 0;
    bool has_dim = r->from->arg_count > 1 && r->from->args[1].kind != SPYRE_ARG_NONE;
    TRY(rewrite_separate(r, 0, &x));
    TRY(rewrite_result(r, 0, &into));
    if (has_dim) {
        TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    } else {
        int64_t count = view_element_count(&x.view);
        TRY(make_reshape(r, &x, &count, 1, &x));
    }
    TRY(make_candidates(r, &x, wants_largest(r), &candidates));
    TRY(make_positions(r, &candidates, 1, dim, &positions));
    return rewrite_finish(r, &positions, &into);
}

static spyre_status topk_values(rewriter *r, const tensor *candidates, int64_t k, uint32_t dim,
                                bool largest)
{
    tensor values = *candidates, into;
    TRY(rewrite_result(r, 0, &into));
    if (candidates->view.size[dim] > 1)
        TRY(make_rank(r, ATEN_SPYRE_TOPKVALUE, candidates, k, dim, NULL, &values));
    if (!largest) TRY(make_descending(r, &values, &values));
    return rewrite_finish(r, &values, &into);
}

// topk: sorted, whether that is asked for or not.
spyre_status rewrite_topk(rewriter *r)
{
    tensor x, candidates, positions, into;
    int64_t k;
    uint32_t dim;
    bool largest;
    TRY(rewrite_separate(r, 0, &x));
    TRY(graph_arg_int(r->source, r->node, 1, -1, &k));
    TRY(rewrite_dim(r, 2, -1, x.view.rank, &dim));
    TRY(graph_arg_bool(r->source, r->node, 3, true, &largest));
    if (k > MOST_RANKED)
        return status_new(SPYRE_UNSUPPORTED, "the first %lld, the card ranks up to %d",
                          (long long)k, MOST_RANKED);
    if (!largest && x.dtype == SPYRE_DTYPE_F32)
        return status_new(SPYRE_UNSUPPORTED, "the smallest of float32, where NaN is the last");
    if (k == 0) return status_new(SPYRE_UNSUPPORTED, "a result without elements");
    TRY(make_candidates(r, &x, largest, &candidates));
    if (k < 1 || k > candidates.view.size[dim])
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: the first %lld of %lld",
                          (long long)k, (long long)candidates.view.size[dim]);
    if (rewrite_uses(r, 0)) TRY(topk_values(r, &candidates, k, dim, largest));
    if (!rewrite_uses(r, 1)) return NULL;
    TRY(rewrite_result(r, 1, &into));
    TRY(make_positions(r, &candidates, k, dim, &positions));
    return rewrite_finish(r, &positions, &into);
}
