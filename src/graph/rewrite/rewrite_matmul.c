// SPDX-License-Identifier: Apache-2.0
//
// Matrix products. Batch dims stay as they are: the native takes any number of them.
#include "graph/rewrite/rewrite.h"

// Views y with leading dims of stride 0 so that its batch dims are `batch[0..rank - 2)`.
static spyre_status expand_batch(rewriter *r, const tensor *y, const spyre_view *batch, tensor *out)
{
    spyre_view view = {.rank = batch->rank + 2, .offset = y->view.offset};
    uint32_t shift = view.rank - y->view.rank;
    bool same = shift == 0;
    for (uint32_t i = 0; i < view.rank; i++) {
        bool has = i >= shift, is_batch = i < batch->rank;
        int64_t size = has ? y->view.size[i - shift] : 1;
        view.size[i] = is_batch ? batch->size[i] : size;
        view.stride[i] = has && (size != 1 || !is_batch) ? y->view.stride[i - shift] : 0;
        if (view.size[i] != size) same = false;
    }
    if (!same) return make_view(r, y, &view, NULL, out);
    *out = *y;
    return NULL;
}

static spyre_view batch_of(const tensor *x)
{
    return view_contiguous(x->view.size, x->view.rank - 2);
}

// A product has whole sticks of columns. Where there is one column, or where rows are but a few
// elements long, most of that is left out sooner: products of elements, exact in float32, and sums.
enum { FEW_PRODUCTS = 64, MOST_PRODUCTS = 1 << 24 };

static bool is_narrow_float(spyre_dtype dtype)
{
    return dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16;
}

static bool has_few_columns(const tensor *x, const tensor *y)
{
    const int64_t depth = y->view.size[y->view.rank - 2], columns = y->view.size[y->view.rank - 1];
    if (!is_narrow_float(x->dtype) || y->dtype != x->dtype || depth < 2) return false;
    if (columns == 1) return true;
    return columns * depth <= FEW_PRODUCTS && x->view.rank < SPYRE_MAX_RANK &&
           view_element_count(&x->view) * columns <= MOST_PRODUCTS;
}

// sum(x[.., M, 1, K] * y[.., 1, N, K]) over K; of one column without the dim of columns.
static spyre_status add_products(rewriter *r, const tensor *x, const tensor *y, const tensor *into,
                                 tensor *out)
{
    const uint32_t rank = x->view.rank;
    const bool one = y->view.size[y->view.rank - 1] == 1;
    bool summed[SPYRE_MAX_RANK] = {false};
    tensor left, right, turned, products, sums;
    TRY(make_cast(r, x, SPYRE_DTYPE_F32, NULL, &left));
    TRY(make_cast(r, y, SPYRE_DTYPE_F32, NULL, &right));
    TRY(make_transpose(r, &right, right.view.rank - 2, right.view.rank - 1, &turned));
    if (!one) TRY(make_unsqueeze(r, &left, rank - 1, &left));
    if (!one) TRY(make_unsqueeze(r, &turned, turned.view.rank - 2, &turned));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &left, &turned, NULL, &products));
    summed[products.view.rank - 1] = true;
    TRY(make_reduction(r, ATEN_SPYRE_SUM, &products, summed, one, NULL, &sums));
    return make_cast(r, &sums, x->dtype, into, out);
}

// x [.., M, K] times y [.., K, N], batch dims broadcast; a y of rank 2 is shared by all batches.
// With a K of 1 it is a product of elements.
static spyre_status multiply(rewriter *r, const tensor *x, const tensor *y, const tensor *into,
                             tensor *out)
{
    if (x->view.rank < 2 || y->view.rank < 2) {
        return status_new(SPYRE_INVALID_ARGUMENT, "a matrix product of ranks %u and %u",
                          x->view.rank, y->view.rank);
    }
    spyre_view x_batch = batch_of(x), y_batch = batch_of(y), batch;
    tensor left = *x, right = *y;
    TRY(broadcast_sizes(&x_batch, &y_batch, &batch));
    TRY(expand_batch(r, x, &batch, &left));
    if (y->view.rank > 2) TRY(expand_batch(r, y, &batch, &right));
    bool is_outer = x->view.size[x->view.rank - 1] == 1 && y->view.size[y->view.rank - 2] == 1;
    if (is_outer && (x->dtype == SPYRE_DTYPE_F32 || is_narrow_float(x->dtype)))
        return make_binary(r, ATEN_SPYRE_MUL, &left, &right, into, out);
    if (has_few_columns(&left, &right)) return add_products(r, &left, &right, into, out);
    return make_matmul(r, &left, &right, into, out);
}

// Gives a vector its missing dim: a row in front, a column behind.
static spyre_status as_matrix(rewriter *r, const tensor *x, bool is_left, bool *out_was_vector,
                              tensor *out)
{
    *out_was_vector = x->view.rank == 1;
    *out = *x;
    if (*out_was_vector) return make_unsqueeze(r, x, is_left ? 0 : 1, out);
    if (x->view.rank > 1) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "operand %d: rank 0", is_left ? 0 : 1);
}

static spyre_status product(rewriter *r, const tensor *x, const tensor *y, const tensor *into)
{
    tensor left, right, result;
    bool row, column;
    TRY(as_matrix(r, x, true, &row, &left));
    TRY(as_matrix(r, y, false, &column, &right));
    if (!row && !column) return multiply(r, &left, &right, into, NULL);
    TRY(multiply(r, &left, &right, NULL, &result));
    return rewrite_finish(r, &result, into);
}

spyre_status rewrite_matmul(rewriter *r)
{
    tensor x, y, into;
    TRY(rewrite_same_dtypes(r, 0, 2));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_operand(r, 1, into.dtype, &y));
    return product(r, &x, &y, &into);
}

// beta * bias + alpha * product; a beta of 0 ignores the bias, whatever it holds.
spyre_status rewrite_addmm(rewriter *r)
{
    tensor bias, x, y, result, into;
    graph_number beta, alpha;
    TRY(rewrite_same_dtypes(r, 0, 3));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &bias));
    TRY(rewrite_operand(r, 1, into.dtype, &x));
    TRY(rewrite_operand(r, 2, into.dtype, &y));
    TRY(graph_arg_number(r->source, r->node, 3, 1, &beta));
    TRY(graph_arg_number(r->source, r->node, 4, 1, &alpha));
    bool has_bias = beta.value != 0, scales = alpha.value != 1;
    TRY(multiply(r, &x, &y, has_bias || scales ? NULL : &into, &result));
    if (scales) {
        TRY(make_with_number(r, ATEN_SPYRE_MUL, &result, &alpha, has_bias ? NULL : &into, &result));
    }
    if (!has_bias) return NULL;
    if (beta.value != 1) TRY(make_with_number(r, ATEN_SPYRE_MUL, &bias, &beta, NULL, &bias));
    return make_binary(r, ATEN_SPYRE_ADD, &result, &bias, &into, NULL);
}

spyre_status rewrite_linear(rewriter *r)
{
    tensor x, weight, bias, turned, result, into;
    bool has_bias, was_vector;
    TRY(rewrite_same_dtypes(r, 0, 3));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(rewrite_operand(r, 1, into.dtype, &weight));
    TRY(rewrite_optional(r, 2, &has_bias, &bias));
    if (weight.view.rank != 2) {
        return status_new(SPYRE_UNSUPPORTED, "operand 1: rank %u, expected 2", weight.view.rank);
    }
    TRY(make_transpose(r, &weight, 0, 1, &turned));
    if (!has_bias) return product(r, &x, &turned, &into);
    TRY(as_matrix(r, &x, true, &was_vector, &x));
    TRY(multiply(r, &x, &turned, NULL, &result));
    if (was_vector) TRY(make_reshape(r, &result, into.view.size, into.view.rank, &result));
    TRY(rewrite_operand(r, 2, into.dtype, &bias));
    return make_binary(r, ATEN_SPYRE_ADD, &result, &bias, &into, NULL);
}

spyre_status rewrite_int_mm(rewriter *r)
{
    tensor x, y, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_separate(r, 0, &x));
    TRY(rewrite_separate(r, 1, &y));
    if (x.dtype != SPYRE_DTYPE_I8 || y.dtype != SPYRE_DTYPE_I8)
        return status_new(SPYRE_UNSUPPORTED, "_int_mm on %s and %s", spyre_dtype_name(x.dtype),
                          spyre_dtype_name(y.dtype));
    return multiply(r, &x, &y, &into, NULL);
}

// product * scale_a * scale_b + bias in float32, then the result's dtype. A scale is one number, or
// one of each row (of a) or column (of b). How fast sums may be is no promise about their bits.
spyre_status rewrite_scaled_mm(rewriter *r)
{
    tensor x, y, scale, bias, result, into;
    bool has_bias, has_scale;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_separate(r, 0, &x));
    TRY(rewrite_separate(r, 1, &y));
    TRY(rewrite_optional(r, 5, &has_scale, &scale));
    if (has_scale) return status_new(SPYRE_UNSUPPORTED, "argument 5: a scale of the result");
    TRY(multiply(r, &x, &y, NULL, &result));
    for (uint32_t i = 2; i < 4; i++) {
        TRY(rewrite_operand(r, i, result.dtype, &scale));
        TRY(make_binary(r, ATEN_SPYRE_MUL, &result, &scale, NULL, &result));
    }
    TRY(rewrite_optional(r, 4, &has_bias, &bias));
    if (has_bias) {
        TRY(rewrite_operand(r, 4, result.dtype, &bias));
        TRY(make_binary(r, ATEN_SPYRE_ADD, &result, &bias, NULL, &result));
    }
    if (!view_same_sizes(&result.view, &into.view))
        return status_new(SPYRE_UNSUPPORTED, "scales that are not one of each row or column");
    return make_cast(r, &result, into.dtype, &into, NULL);
}
