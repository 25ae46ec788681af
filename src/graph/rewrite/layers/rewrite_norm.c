// SPDX-License-Identifier: Apache-2.0
//
// Normalisations over the last dim; over more dims than one the card has no form.
#include <float.h>

#include "graph/rewrite/rewrite.h"

static spyre_status expect_last_dim(rewriter *r, const tensor *x)
{
    int64_t sizes[SPYRE_MAX_RANK];
    uint32_t count;
    TRY(graph_arg_ints(r->source, r->node, 1, sizes, &count));
    if (count != 1) {
        return status_new(SPYRE_UNSUPPORTED, "a normalized_shape of length %u, only 1 is supported",
                          count);
    }
    if (x->view.rank && sizes[0] == x->view.size[x->view.rank - 1]) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "argument 1: normalized_shape [%lld] is not the last "
                      "size of operand 0",
                      (long long)sizes[0]);
}

// An optional vector in the dtype of the result; *out_vector is null when it is missing.
static spyre_status load_vector(rewriter *r, uint32_t index, spyre_dtype dtype, tensor *room,
                                const tensor **out_vector)
{
    bool present;
    *out_vector = NULL;
    TRY(rewrite_optional(r, index, &present, room));
    if (!present) return NULL;
    *out_vector = room;
    return rewrite_operand(r, index, dtype, room);
}

spyre_status make_centered(rewriter *r, const tensor *x, const bool *reduced, tensor *out_mean,
                           tensor *out_distance)
{
    TRY(make_reduction(r, ATEN_SPYRE_MEAN, x, reduced, true, NULL, out_mean));
    return make_binary(r, ATEN_SPYRE_SUB, x, out_mean, NULL, out_distance);
}

spyre_status make_square(rewriter *r, const tensor *x, tensor *out)
{
    tensor wide;
    TRY(make_cast(r, x, SPYRE_DTYPE_F32, NULL, &wide));
    return make_binary(r, ATEN_SPYRE_MUL, &wide, &wide, NULL, out);
}

spyre_status make_variance(rewriter *r, const tensor *distance, const tensor *square,
                           const bool *reduced, bool keepdim, tensor *out_mean,
                           tensor *out_variance)
{
    tensor mean, mean_square, correction, variance;
    TRY(make_reduction(r, ATEN_SPYRE_MEAN, distance, reduced, keepdim, NULL, &mean));
    TRY(make_reduction(r, ATEN_SPYRE_MEAN, square, reduced, keepdim, NULL, &mean_square));
    TRY(make_cast(r, &mean_square, SPYRE_DTYPE_F32, NULL, &mean_square));
    TRY(make_cast(r, &mean, SPYRE_DTYPE_F32, NULL, out_mean));
    TRY(make_binary(r, ATEN_SPYRE_MUL, out_mean, out_mean, NULL, &correction));
    TRY(make_binary(r, ATEN_SPYRE_SUB, &mean_square, &correction, NULL, &variance));
    return make_with(r, ATEN_SPYRE_MAXIMUM, &variance, 0, NULL, out_variance);
}

// What a backward pass reads, when it does: mean and 1 / sqrt(variance + eps) over the last dim, in
// float32. `mean` and `distance` as make_centered() has them: the mean is the sum of the rounded
// one and of what is left of the distances.
static spyre_status make_statistics(rewriter *r, const tensor *mean, const tensor *distance,
                                    double eps)
{
    tensor square, wide, rest, sum, variance, shifted, scale, into;
    bool last[SPYRE_MAX_RANK] = {false};
    last[distance->view.rank - 1] = true;
    if (!rewrite_uses(r, 1) && !rewrite_uses(r, 2)) return NULL;
    // Of the dtype of x: eps is more than the squares that 16 bits do not have.
    TRY(make_binary(r, ATEN_SPYRE_MUL, distance, distance, NULL, &square));
    TRY(make_variance(r, distance, &square, last, true, &rest, &variance));
    if (rewrite_uses(r, 1)) {
        TRY(rewrite_result(r, 1, &into));
        TRY(make_cast(r, mean, SPYRE_DTYPE_F32, NULL, &wide));
        TRY(make_binary(r, ATEN_SPYRE_ADD, &wide, &rest, NULL, &sum));
        TRY(rewrite_finish(r, &sum, &into));
    }
    if (!rewrite_uses(r, 2)) return NULL;
    TRY(make_with(r, ATEN_SPYRE_ADD, &variance, eps, NULL, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_RSQRT, &shifted, NULL, &scale));
    TRY(rewrite_result(r, 2, &into));
    return rewrite_finish(r, &scale, &into);
}

// The opfuncs of layer norm take mean(x^2) - mean(x)^2, which cancels where the mean is large
// beside the deviation. Of the distances from the mean they take what is left of it.
spyre_status rewrite_layer_norm(rewriter *r)
{
    tensor x, mean, distance, weight_room, bias_room, into;
    const tensor *weight, *bias;
    bool last[SPYRE_MAX_RANK] = {false};
    double eps;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(expect_last_dim(r, &x));
    TRY(load_vector(r, 2, into.dtype, &weight_room, &weight));
    TRY(load_vector(r, 3, into.dtype, &bias_room, &bias));
    TRY(graph_arg_real(r->source, r->node, 4, 1e-5, &eps));
    last[x.view.rank - 1] = true;
    TRY(make_centered(r, &x, last, &mean, &distance));
    TRY(make_statistics(r, &mean, &distance, eps));
    const norm_parameters p = {.weight = weight, .bias = bias, .eps = eps};
    return make_layer_norm(r, &distance, &p, &into, NULL);
}

spyre_status rewrite_counted_layer_norm(rewriter *r)
{
    tensor distance, part, weight_room, bias_room, into;
    norm_parameters p = {.part = &part};
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &distance));
    TRY(rewrite_operand(r, 1, SPYRE_DTYPE_F32, &part));
    TRY(load_vector(r, 2, into.dtype, &weight_room, &p.weight));
    TRY(load_vector(r, 3, into.dtype, &bias_room, &p.bias));
    TRY(graph_arg_real(r->source, r->node, 4, 1e-5, &p.eps));
    return make_layer_norm(r, &distance, &p, &into, NULL);
}

// The machine epsilon of the operand's dtype, PyTorch's default for rms_norm.
static double dtype_epsilon(spyre_dtype dtype)
{
    if (dtype == SPYRE_DTYPE_F16) return 0x1p-10;
    if (dtype == SPYRE_DTYPE_BF16) return 0x1p-7;
    return (double)FLT_EPSILON;
}

spyre_status rewrite_rms_norm(rewriter *r)
{
    tensor x, room, square, mean, shifted, scale, result, scale_into, into;
    const tensor *weight;
    bool last[SPYRE_MAX_RANK] = {false};
    double eps;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(expect_last_dim(r, &x));
    TRY(load_vector(r, 2, into.dtype, &room, &weight));
    TRY(graph_arg_real(r->source, r->node, 3, dtype_epsilon(x.dtype), &eps));
    last[x.view.rank - 1] = true;
    TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &x, NULL, &square));
    TRY(make_reduction(r, ATEN_SPYRE_MEAN, &square, last, true, NULL, &mean));
    TRY(make_with(r, ATEN_SPYRE_ADD, &mean, eps, NULL, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_RSQRT, &shifted, NULL, &scale));
    if (rewrite_uses(r, 1)) {
        TRY(rewrite_result(r, 1, &scale_into));
        TRY(rewrite_finish(r, &scale, &scale_into));
    }
    TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &scale, weight ? NULL : &into, &result));
    return weight ? make_binary(r, ATEN_SPYRE_MUL, &result, weight, &into, NULL) : NULL;
}
