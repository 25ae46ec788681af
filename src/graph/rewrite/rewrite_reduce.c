// SPDX-License-Identifier: Apache-2.0
//
// Reductions, norms of vectors.
#include <math.h>

#include "graph/rewrite/rewrite.h"

enum {
    MOST_COUNTED = 1 << 24, // float32 has every whole number up to here
    LEAST_ROWS = 32,        // one per core
    LEAST_SHARED = 1 << 18, // bytes that are worth a kernel more
};

typedef struct {
    bool reduced[SPYRE_MAX_RANK];
    bool keepdim;
    int64_t count; // elements that become one
} reduction;

// dims at argument `dims` (none or [] are all dims), keepdim at `keepdim` (0: the op has none).
static spyre_status load_reduction(rewriter *r, const tensor *x, uint32_t dims, uint32_t keepdim,
                                   reduction *out)
{
    int64_t list[SPYRE_MAX_RANK];
    uint32_t count = 0;
    int64_t rank = x->view.rank ? x->view.rank : 1;
    *out = (reduction){.count = 1};
    if (dims) TRY(graph_arg_ints(r->source, r->node, dims, list, &count));
    if (keepdim) TRY(graph_arg_bool(r->source, r->node, keepdim, false, &out->keepdim));
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] < -rank || list[i] >= rank) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "argument %u: dim %lld is outside [-%lld, "
                              "%lld)",
                              dims, (long long)list[i], (long long)rank, (long long)rank);
        }
        out->reduced[list[i] < 0 ? list[i] + rank : list[i]] = true;
    }
    for (uint32_t i = 0; i < x->view.rank; i++) {
        if (count == 0) out->reduced[i] = true;
        if (out->reduced[i]) out->count *= x->view.size[i];
    }
    return NULL;
}

// Where an op keeps its dims and keepdim arguments; both 0 for ops over everything.
static void reduction_args(const rewriter *r, uint32_t *out_dims, uint32_t *out_keepdim)
{
    uint32_t op = r->from->op;
    bool over_all = op == ATEN_SUM || op == ATEN_MEAN || op == ATEN_MAX || op == ATEN_MIN ||
                    op == ATEN_ANY || op == ATEN_ALL || op == ATEN_NORM_SCALAR;
    bool is_norm = op == ATEN_VECTOR_NORM || op == ATEN_NORM_DIM;
    *out_dims = over_all ? 0 : is_norm ? 2 : 1;
    *out_keepdim = over_all ? 0 : is_norm ? 3 : 2;
}

// How many are true, in float32, which adds ones exactly.
static spyre_status count_true(rewriter *r, const tensor *x, const reduction *over,
                               const tensor *into)
{
    tensor ones, count;
    if (over->count > MOST_COUNTED)
        return status_new(SPYRE_UNSUPPORTED, "a count of %lld bools", (long long)over->count);
    TRY(make_cast(r, x, SPYRE_DTYPE_F32, NULL, &ones));
    TRY(make_reduction(r, ATEN_SPYRE_SUM, &ones, over->reduced, over->keepdim, NULL, &count));
    return make_cast(r, &count, into->dtype, into, NULL);
}

// Of everything no core has a part by itself, so it is reduced in two steps: what is below the
// outer dims, then those. False where there are too few.
static bool has_rows(const tensor *x, const reduction *over, uint32_t *out_outer)
{
    int64_t rows = 1;
    const int64_t bytes = x->dtype == SPYRE_DTYPE_F16 || x->dtype == SPYRE_DTYPE_BF16 ? 2 : 4;
    if (x->dtype == SPYRE_DTYPE_BOOL || over->count * bytes < LEAST_SHARED) return false;
    for (uint32_t i = 0; i < x->view.rank; i++)
        if (!over->reduced[i]) return false;
    for (*out_outer = 0; *out_outer + 1 < x->view.rank && rows < LEAST_ROWS; ++*out_outer)
        rows *= x->view.size[*out_outer];
    return rows >= LEAST_ROWS && rows < over->count;
}

static spyre_status reduce_rows(rewriter *r, aten_op op, const tensor *x, reduction *over,
                                uint32_t outer, tensor *out)
{
    bool inner[SPYRE_MAX_RANK] = {false};
    for (uint32_t i = outer; i < x->view.rank; i++) {
        inner[i] = true;
        over->reduced[i] = over->keepdim;
    }
    return make_reduction(r, op, x, inner, over->keepdim, NULL, out);
}

spyre_status rewrite_reduce(rewriter *r)
{
    tensor x, given, into;
    reduction over;
    uint32_t dims, keepdim, outer;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    TRY(rewrite_only_result(r, 0));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &given));
    reduction_args(r, &dims, &keepdim);
    TRY(load_reduction(r, &given, dims, keepdim, &over));
    if (op == ATEN_SPYRE_SUM && given.dtype == SPYRE_DTYPE_BOOL && into.dtype == SPYRE_DTYPE_I64)
        return count_true(r, &given, &over, &into);
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    if (!has_rows(&x, &over, &outer))
        return make_reduction(r, op, &x, over.reduced, over.keepdim, &into, NULL);
    // Sums of parts are not rounded to 16 bits.
    const bool adds = op == ATEN_SPYRE_SUM || op == ATEN_SPYRE_MEAN;
    const bool narrow = x.dtype == SPYRE_DTYPE_F16 || x.dtype == SPYRE_DTYPE_BF16;
    if (adds && narrow) TRY(make_cast(r, &x, SPYRE_DTYPE_F32, NULL, &x));
    TRY(reduce_rows(r, op, &x, &over, outer, &x));
    if (x.dtype == into.dtype)
        return make_reduction(r, op, &x, over.reduced, over.keepdim, &into, NULL);
    TRY(make_reduction(r, op, &x, over.reduced, over.keepdim, NULL, &x));
    return make_cast(r, &x, into.dtype, &into, NULL);
}

// Both ends over one dim or all.
spyre_status rewrite_aminmax(rewriter *r)
{
    static const aten_op ENDS[2] = {ATEN_SPYRE_MIN, ATEN_SPYRE_MAX};
    tensor x, into;
    reduction over = {.count = 1};
    uint32_t dim = 0;
    bool has_dim = r->from->arg_count > 1 && r->from->args[1].kind != SPYRE_ARG_NONE;
    TRY(rewrite_tensor(r, 0, &x));
    TRY(graph_arg_bool(r->source, r->node, 2, false, &over.keepdim));
    if (has_dim) TRY(rewrite_dim(r, 1, 0, x.view.rank, &dim));
    for (uint32_t i = 0; i < x.view.rank; i++) over.reduced[i] = !has_dim || i == dim;
    for (uint32_t end = 0; end < 2; end++) {
        TRY(rewrite_result(r, end, &into));
        TRY(make_reduction(r, ENDS[end], &x, over.reduced, over.keepdim, &into, NULL));
    }
    return NULL;
}

// The result is bool, of uint8 it is uint8.
spyre_status rewrite_reduce_bool(rewriter *r)
{
    tensor x, into, found;
    reduction over;
    uint32_t dims, keepdim;
    aten_op op = native_of(aten_describe((aten_op)r->from->op)->opfunc);
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, SPYRE_DTYPE_BOOL, &x));
    reduction_args(r, &dims, &keepdim);
    TRY(load_reduction(r, &x, dims, keepdim, &over));
    bool is_bool = into.dtype == SPYRE_DTYPE_BOOL;
    TRY(make_reduction(r, op, &x, over.reduced, over.keepdim, is_bool ? &into : NULL, &found));
    return is_bool ? NULL : make_cast(r, &found, into.dtype, &into, NULL);
}

// The biased variance times n / (n - correction), in float32; std is its root.
spyre_status rewrite_var(rewriter *r)
{
    tensor x, center, distance, square, rest, variance, into, mean_into;
    reduction over;
    double correction;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(load_reduction(r, &x, 1, 3, &over));
    TRY(graph_arg_real(r->source, r->node, 2, 1, &correction));
    double scale = (double)over.count / ((double)over.count - correction);
    if (!(scale > 0) || isinf(scale)) {
        return status_new(SPYRE_UNSUPPORTED, "variance of %lld elements with correction %g",
                          (long long)over.count, correction);
    }
    TRY(make_centered(r, &x, over.reduced, &center, &distance));
    if (r->from->op == ATEN_VAR_MEAN && r->from->result_count > 1) {
        TRY(rewrite_result(r, 1, &mean_into));
        TRY(rewrite_finish(r, &center, &mean_into));
    }
    TRY(make_square(r, &distance, &square));
    TRY(make_variance(r, &distance, &square, over.reduced, over.keepdim, &rest, &variance));
    if (scale != 1) TRY(make_with(r, ATEN_SPYRE_MUL, &variance, scale, NULL, &variance));
    if (r->from->op == ATEN_STD)
        TRY(make_unary(r, ATEN_SPYRE_SQRT, &variance, NULL, &variance));
    return make_cast(r, &variance, into.dtype, &into, NULL);
}

spyre_status rewrite_vector_norm(rewriter *r)
{
    tensor x, part, sum, into;
    reduction over;
    double order;
    uint32_t dims, keepdim;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(graph_arg_real(r->source, r->node, 1, 2, &order));
    reduction_args(r, &dims, &keepdim);
    TRY(load_reduction(r, &x, dims, keepdim, &over));
    if (order == 2) {
        TRY(make_square(r, &x, &part));
        TRY(make_reduction(r, ATEN_SPYRE_SUM, &part, over.reduced, over.keepdim, NULL, &sum));
        TRY(make_unary(r, ATEN_SPYRE_SQRT, &sum, NULL, &sum));
        return make_cast(r, &sum, into.dtype, &into, NULL);
    }
    if (order != 1 && !isinf(order)) {
        return status_new(SPYRE_UNSUPPORTED, "a norm of order %g", order);
    }
    aten_op op = order == 1 ? ATEN_SPYRE_SUM : order > 0 ? ATEN_SPYRE_MAX : ATEN_SPYRE_MIN;
    TRY(make_unary(r, ATEN_SPYRE_ABS, &x, NULL, &part));
    return make_reduction(r, op, &part, over.reduced, over.keepdim, &into, NULL);
}
