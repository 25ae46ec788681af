// SPDX-License-Identifier: Apache-2.0
//
// Activations that are no opfunc of the card, out of those that are; each computes in the dtype of
// its result.
#include <math.h>

#include "graph/rewrite/rewrite.h"

static spyre_status load(rewriter *r, tensor *x, tensor *into)
{
    TRY(rewrite_result(r, 0, into));
    return rewrite_operand(r, 0, into->dtype, x);
}

// relu(x) and min(x, 0).
static spyre_status make_halves(rewriter *r, const tensor *x, tensor *above, tensor *below)
{
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, x, NULL, above));
    return make_with(r, ATEN_SPYRE_MINIMUM, x, 0, NULL, below);
}

// The number that scales one half of x. An infinite or NaN one would meet the 0 that stands there
// for the other half, and make NaN of it.
static spyre_status factor_of_half(rewriter *r, uint32_t index, double otherwise,
                                   graph_number *out)
{
    TRY(graph_arg_number(r->source, r->node, index, otherwise, out));
    if (isfinite(out->value)) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "argument %u is no finite number", index);
}

// A slope that is a parameter lies between 0 and 1 (scalar_rule.def), so that x is the larger above
// 0 and slope * x below.
spyre_status rewrite_leaky_relu(rewriter *r)
{
    tensor x, above, below, scaled, into;
    graph_number slope;
    TRY(load(r, &x, &into));
    TRY(graph_arg_number(r->source, r->node, 1, 0.01, &slope));
    if (slope.value > 0 && slope.value < 1) {
        TRY(make_with_number(r, ATEN_SPYRE_MUL, &x, &slope, NULL, &scaled));
        return make_binary(r, ATEN_SPYRE_MAXIMUM, &x, &scaled, &into, NULL);
    }
    if (rewrite_takes(r, ATEN_SPYRE_LEAKYRELUFWD, x.dtype))
        return make_parametric(r, ATEN_SPYRE_LEAKYRELUFWD, &x, slope.value, 0, &into, NULL);
    TRY(factor_of_half(r, 1, 0.01, &slope));
    TRY(make_halves(r, &x, &above, &below));
    TRY(make_with_number(r, ATEN_SPYRE_MUL, &below, &slope, NULL, &scaled));
    return make_binary(r, ATEN_SPYRE_ADD, &above, &scaled, &into, NULL);
}

// An opfunc with the numbers behind x as parameters.
static spyre_status apply_numbers(rewriter *r, const graph_number *first,
                                  const graph_number *second)
{
    tensor x, into;
    opfunc op = aten_describe((aten_op)r->from->op)->opfunc;
    TRY(rewrite_expect_allowed(r, op));
    TRY(load(r, &x, &into));
    return make_parametric_of(r, native_of(op), &x, first, second, &into, NULL);
}

static spyre_status apply_parameters(rewriter *r, double first, double second)
{
    return apply_numbers(r, &(graph_number){.value = first}, &(graph_number){.value = second});
}

spyre_status rewrite_threshold(rewriter *r)
{
    graph_number threshold, value;
    tensor x, is_small, instead, into;
    TRY(load(r, &x, &into));
    TRY(graph_arg_number(r->source, r->node, 1, 0, &threshold));
    TRY(graph_arg_number(r->source, r->node, 2, 0, &value));
    if (x.dtype != SPYRE_DTYPE_I64 && x.dtype != SPYRE_DTYPE_I32)
        return apply_numbers(r, &threshold, &value);
    TRY(make_with_number(r, ATEN_SPYRE_LESSEREQUAL, &x, &threshold, NULL, &is_small));
    TRY(make_number(r, &value, x.dtype, &instead));
    return make_where(r, &is_small, &instead, &x, &into, NULL);
}

// The order stands before x.
spyre_status rewrite_polygamma(rewriter *r)
{
    int64_t order;
    tensor x, into;
    TRY(rewrite_expect_allowed(r, OPFUNC_POLYGAMMA));
    TRY(graph_arg_int(r->source, r->node, 0, 0, &order));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 1, into.dtype, &x));
    return make_parametric(r, ATEN_SPYRE_POLYGAMMA, &x, (double)order, 0, &into, NULL);
}

// PyTorch compares with lambda as the tensor's dtype holds it (threshold: as fp32 does).
spyre_status rewrite_shrink(rewriter *r)
{
    tensor into;
    graph_number lambda;
    TRY(rewrite_result(r, 0, &into));
    TRY(graph_arg_number(r->source, r->node, 1, 0.5, &lambda));
    lambda = number_in(r, lambda, into.dtype);
    return apply_numbers(r, &lambda, &(graph_number){0});
}

// To multiples of 10^-decimals: the larger power of ten is exact.
spyre_status rewrite_round_decimals(rewriter *r)
{
    int64_t decimals;
    TRY(graph_arg_int(r->source, r->node, 1, 0, &decimals));
    double power = pow(10, fabs((double)decimals));
    return decimals < 0 ? apply_parameters(r, 1, power) : apply_parameters(r, power, 1);
}

spyre_status rewrite_logit(rewriter *r)
{
    tensor x, into;
    graph_number eps, rest;
    TRY(rewrite_expect_allowed(r, OPFUNC_LOGIT));
    TRY(load(r, &x, &into));
    TRY(graph_arg_number(r->source, r->node, 1, -1, &eps));
    rest = eps;
    if (eps.scalar) rest.form = SPYRE_SCALAR_REST;
    else rest.value = 1 - eps.value;
    if (eps.value >= 0 && rewrite_takes(r, ATEN_SPYRE_CLIP, x.dtype))
        TRY(make_parametric_of(r, ATEN_SPYRE_CLIP, &x, &eps, &rest, NULL, &x));
    return make_unary(r, ATEN_SPYRE_LOGIT, &x, &into, NULL);
}

// In 16 bits x is chosen or weight * x; float32 has no comparison.
spyre_status rewrite_prelu(rewriter *r)
{
    tensor x, weight, above, below, scaled, into;
    TRY(load(r, &x, &into));
    TRY(rewrite_operand(r, 1, into.dtype, &weight));
    if (x.dtype != SPYRE_DTYPE_F32) {
        TRY(make_with(r, ATEN_SPYRE_GREATERTHAN, &x, 0, NULL, &above));
        TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &weight, NULL, &scaled));
        return make_where(r, &above, &x, &scaled, &into, NULL);
    }
    TRY(make_halves(r, &x, &above, &below));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &below, &weight, NULL, &scaled));
    return make_binary(r, ATEN_SPYRE_ADD, &above, &scaled, &into, NULL);
}

// e^x - 1 in float32, which has no tanh: (e^a - 1) e^b + (e^b - 1) of x = a + b, where a is x
// clamped to +-1/4, by its series, and b the rest. Where b is 0 only the series is left; where it
// is not, the first term is at least a fifth in size, so that e^b - 1 may cancel.
static spyre_status make_expm1_32(rewriter *r, const tensor *x, const tensor *into,
                                  tensor *out)
{
    enum { TERMS = 8 };
    tensor near, far, series, power, rest;
    TRY(make_with(r, ATEN_SPYRE_MAXIMUM, x, -0.25, NULL, &near));
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, &near, 0.25, NULL, &near));
    TRY(make_binary(r, ATEN_SPYRE_SUB, x, &near, NULL, &far));
    // a (1 + a/2 (1 + a/3 (1 + .. a/8)))
    TRY(make_with(r, ATEN_SPYRE_MUL, &near, 1.0 / TERMS, NULL, &series));
    for (int n = TERMS - 1; n >= 1; n--) {
        TRY(make_with(r, ATEN_SPYRE_ADD, &series, 1, NULL, &series));
        TRY(make_binary(r, ATEN_SPYRE_MUL, &series, &near, NULL, &series));
        if (n > 1) TRY(make_with(r, ATEN_SPYRE_MUL, &series, 1.0 / n, NULL, &series));
    }
    TRY(make_unary(r, ATEN_SPYRE_EXP, &far, NULL, &power));
    TRY(make_with(r, ATEN_SPYRE_SUB, &power, 1, NULL, &rest));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &series, &power, NULL, &series));
    return make_binary(r, ATEN_SPYRE_ADD, &series, &rest, into, out);
}

static spyre_status make_expm1(rewriter *r, const tensor *x, const tensor *into, tensor *out)
{
    tensor wide;
    if (rewrite_allows(r, OPFUNC_EXPM1) && rewrite_takes(r, ATEN_SPYRE_EXPM1, x->dtype))
        return make_unary(r, ATEN_SPYRE_EXPM1, x, into, out);
    if (x->dtype == SPYRE_DTYPE_F32) return make_expm1_32(r, x, into, out);
    TRY(make_cast(r, x, SPYRE_DTYPE_F32, NULL, &wide));
    TRY(make_expm1_32(r, &wide, NULL, &wide));
    return make_cast(r, &wide, x->dtype, into, out);
}

spyre_status rewrite_expm1(rewriter *r)
{
    tensor x, into;
    TRY(load(r, &x, &into));
    return make_expm1(r, &x, &into, NULL);
}

// (x, alpha, scale, input_scale)
spyre_status rewrite_elu(rewriter *r)
{
    tensor x, above, below, negative, into;
    graph_number alpha, scale, input_scale;
    TRY(load(r, &x, &into));
    TRY(factor_of_half(r, 1, 1, &alpha));
    TRY(factor_of_half(r, 2, 1, &scale));
    TRY(factor_of_half(r, 3, 1, &input_scale));
    bool is_plain = alpha.value == 1 && scale.value == 1 && input_scale.value == 1;
    if (is_plain && rewrite_allows(r, OPFUNC_ELU) && rewrite_takes(r, ATEN_SPYRE_ELU, x.dtype))
        return make_unary(r, ATEN_SPYRE_ELU, &x, &into, NULL);
    TRY(make_halves(r, &x, &above, &below));
    if (input_scale.value != 1)
        TRY(make_with_number(r, ATEN_SPYRE_MUL, &below, &input_scale, NULL, &below));
    TRY(make_expm1(r, &below, NULL, &negative));
    if (alpha.value != 1)
        TRY(make_with_number(r, ATEN_SPYRE_MUL, &negative, &alpha, NULL, &negative));
    if (scale.value == 1) return make_binary(r, ATEN_SPYRE_ADD, &above, &negative, &into, NULL);
    TRY(make_binary(r, ATEN_SPYRE_ADD, &above, &negative, NULL, &above));
    return make_with_number(r, ATEN_SPYRE_MUL, &above, &scale, &into, NULL);
}

// clamp(x + 3, 0, 6) / 6
static spyre_status make_gate(rewriter *r, const tensor *x, const tensor *into, tensor *gate)
{
    tensor shifted, raised, cut;
    TRY(make_with(r, ATEN_SPYRE_ADD, x, 3, NULL, &shifted));
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, &shifted, NULL, &raised));
    TRY(make_with(r, ATEN_SPYRE_MINIMUM, &raised, 6, NULL, &cut));
    return make_with(r, ATEN_SPYRE_REALDIV, &cut, 6, into, gate);
}

spyre_status rewrite_hardsigmoid(rewriter *r)
{
    tensor x, into;
    TRY(load(r, &x, &into));
    return make_gate(r, &x, &into, NULL);
}

spyre_status rewrite_hardswish(rewriter *r)
{
    tensor x, gate, into;
    TRY(load(r, &x, &into));
    TRY(make_gate(r, &x, NULL, &gate));
    return make_binary(r, ATEN_SPYRE_MUL, &x, &gate, &into, NULL);
}

spyre_status rewrite_glu(rewriter *r)
{
    tensor x, first, second, gate, into;
    uint32_t dim;
    TRY(load(r, &x, &into));
    TRY(rewrite_dim(r, 1, -1, x.view.rank, &dim));
    if (x.view.rank == 0 || x.view.size[dim] % 2 != 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "operand 0: an odd dim %u has no halves", dim);
    }
    int64_t half = x.view.size[dim] / 2;
    TRY(make_slice(r, &x, dim, 0, half, &first));
    TRY(make_slice(r, &x, dim, half, half, &second));
    TRY(make_unary(r, ATEN_SPYRE_SIGMOID, &second, NULL, &gate));
    return make_binary(r, ATEN_SPYRE_MUL, &first, &gate, &into, NULL);
}
