// SPDX-License-Identifier: Apache-2.0
//
// The largest and the smallest elements and where they are. The card ranks from the largest down,
// equal elements by position; NaN is the largest. Sorting is the ranking of all elements. The
// smallest are the largest of what descends where x ascends: -x, of integers -1 - x, which does not
// overflow. That puts a NaN first: right for min and argmin, but topk and sort of float32, where
// NaN comes last, rank from the smallest up, which no published opfunc does.
#include "graph/rewrite/rewrite.h"

static spyre_status make_descending(rewriter *r, const tensor *x, tensor *out)
{
    tensor all;
    bool integer = x->dtype == SPYRE_DTYPE_I32 || x->dtype == SPYRE_DTYPE_I64;
    if (!integer) return make_unary(r, ATEN_SPYRE_NEG, x, NULL, out);
    TRY(make_constant(r, -1, x->dtype, &all));
    return make_binary(r, ATEN_SPYRE_SUB, &all, x, NULL, out);
}

static bool is_narrow(spyre_dtype dtype)
{
    return dtype == SPYRE_DTYPE_I8 || dtype == SPYRE_DTYPE_U8 || dtype == SPYRE_DTYPE_I16;
}

// What is ranked: a tensor of rank 1 or more whose elements are apart.
static spyre_status make_candidates(rewriter *r, const tensor *x, tensor *out)
{
    static const int64_t one = 1;
    spyre_dtype dtype = is_narrow(x->dtype) ? SPYRE_DTYPE_I32 : x->dtype;
    TRY(make_cast(r, x, dtype == SPYRE_DTYPE_BOOL ? SPYRE_DTYPE_F16 : dtype, NULL, out));
    if (x->view.rank == 0) TRY(make_reshape(r, out, &one, 1, out));
    for (uint32_t i = 0; i < out->view.rank; i++) {
        if (out->view.stride[i] || out->view.size[i] == 1) continue;
        TRY(make_copy(r, out, NULL, out));
    }
    return NULL;
}

// The positions of the first k, int64.
static spyre_status make_positions(rewriter *r, aten_op op, const tensor *candidates, int64_t k,
                                   uint32_t dim, tensor *out)
{
    spyre_view sizes = candidates->view;
    sizes.size[dim] = k;
    if (candidates->view.size[dim] == 1)
        return make_full(r, 0, SPYRE_DTYPE_I64, &sizes, NULL, out);
    return make_rank(r, op, candidates, k, dim, NULL, out);
}

static spyre_status make_extreme(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    bool reduced[SPYRE_MAX_RANK] = {false};
    reduced[dim] = x->view.rank > 0;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    return make_reduction(r, op, x, reduced, true, NULL, out);
}

static spyre_status make_extreme_position(rewriter *r, const tensor *x, uint32_t dim, tensor *out)
{
    tensor candidates;
    bool wants_largest = aten_describe((aten_op)r->from->op)->opfunc == OPFUNC_MAX;
    TRY(make_candidates(r, x, &candidates));
    if (!wants_largest) TRY(make_descending(r, &candidates, &candidates));
    return make_positions(r, ATEN_SPYRE_TOPKINDEX, &candidates, 1, dim, out);
}

// max.dim, min.dim: values, and positions when they are used.
spyre_status rewrite_extreme(rewriter *r)
{
    tensor x, values, positions, into;
    uint32_t dim;
    bool with_positions = rewrite_uses(r, 1);
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    TRY(make_extreme(r, &x, dim, &values));
    TRY(rewrite_finish(r, &values, &into));
    if (!with_positions) return NULL;
    TRY(make_extreme_position(r, &x, dim, &positions));
    TRY(rewrite_result(r, 1, &into));
    return rewrite_finish(r, &positions, &into);
}

// argmax, argmin: without a dim, of all elements in order.
spyre_status rewrite_index_of(rewriter *r)
{
    tensor x, positions, into;
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
    TRY(make_extreme_position(r, &x, dim, &positions));
    return rewrite_finish(r, &positions, &into);
}

// The first k of a ranking along a dim, as far as they are used.
static spyre_status finish_ranking(rewriter *r, const tensor *x, int64_t k, uint32_t dim,
                                   bool largest)
{
    tensor candidates, into;
    bool upwards = !largest && x->dtype == SPYRE_DTYPE_F32, turns = !largest && !upwards;
    TRY(make_candidates(r, x, &candidates));
    if (turns) TRY(make_descending(r, &candidates, &candidates));
    if (rewrite_uses(r, 0)) {
        tensor values = candidates;
        aten_op op = upwards ? ATEN_SPYRE_BOTTOMKVALUE : ATEN_SPYRE_TOPKVALUE;
        if (candidates.view.size[dim] > 1)
            TRY(make_rank(r, op, &candidates, k, dim, NULL, &values));
        if (turns) TRY(make_descending(r, &values, &values));
        TRY(rewrite_result(r, 0, &into));
        TRY(rewrite_finish(r, &values, &into));
    }
    if (rewrite_uses(r, 1)) {
        tensor positions;
        aten_op op = upwards ? ATEN_SPYRE_BOTTOMKINDEX : ATEN_SPYRE_TOPKINDEX;
        TRY(make_positions(r, op, &candidates, k, dim, &positions));
        TRY(rewrite_result(r, 1, &into));
        TRY(rewrite_finish(r, &positions, &into));
    }
    return NULL;
}

// topk: sorted, whether that is asked for or not.
spyre_status rewrite_topk(rewriter *r)
{
    tensor x;
    int64_t k;
    uint32_t dim;
    bool largest;
    TRY(rewrite_separate(r, 0, &x));
    TRY(graph_arg_int(r->source, r->node, 1, -1, &k));
    TRY(rewrite_dim(r, 2, -1, x.view.rank, &dim));
    TRY(graph_arg_bool(r->source, r->node, 3, true, &largest));
    if (k == 0) return status_new(SPYRE_UNSUPPORTED, "a result without elements");
    int64_t most = x.view.rank ? x.view.size[dim] : 1;
    if (k < 1 || k > most)
        return status_new(SPYRE_INVALID_ARGUMENT, "argument 1: the first %lld of %lld",
                          (long long)k, (long long)most);
    return finish_ranking(r, &x, k, dim, largest);
}

// sort, stable whether that is asked for or not: it is the one order there is.
spyre_status rewrite_sort(rewriter *r)
{
    tensor x;
    uint32_t dim, first = r->from->op == ATEN_SORT_STABLE ? 2 : 1;
    bool descending;
    TRY(rewrite_separate(r, 0, &x));
    TRY(rewrite_dim(r, first, -1, x.view.rank, &dim));
    TRY(graph_arg_bool(r->source, r->node, first + 1, false, &descending));
    return finish_ranking(r, &x, x.view.rank ? x.view.size[dim] : 1, dim, descending);
}
