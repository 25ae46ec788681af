// SPDX-License-Identifier: Apache-2.0
//
// Powers of tensors, powers of numbers, and what is left of divisions.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/rewrite/rewrite.h"
#include "tensor/scalar.h"

enum { MOST_EXACT = 8 }; // powers of two that every format has, and whose inverses it has

// x^(2^doublings): squared again and again.
static spyre_status power_of_two(rewriter *r, const tensor *x, int doublings, const tensor *into,
                                 tensor *out)
{
    tensor power = *x;
    for (int i = 0; i < doublings; i++) {
        bool last = i + 1 == doublings;
        TRY(make_binary(r, ATEN_SPYRE_MUL, &power, &power, last ? into : NULL, &power));
    }
    *out = power;
    return NULL;
}

// An exponent that is a parameter is none of those with an operator of their own
// (scalar_rule.def).
spyre_status rewrite_pow(rewriter *r)
{
    tensor x, power, into;
    graph_number number;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(graph_arg_number(r->source, r->node, 1, 1, &number));
    const double exponent = number.value;
    if (exponent == 0) return make_full(r, 1, into.dtype, &into.view, &into, NULL);
    if (exponent == 1) return make_copy(r, &x, &into, NULL);
    if (exponent == 2) return power_of_two(r, &x, 1, &into, &power);
    if (exponent == 4) return power_of_two(r, &x, 2, &into, &power);
    if (exponent == 0.5) return make_unary(r, ATEN_SPYRE_SQRT, &x, &into, NULL);
    if (exponent == -0.5) return make_unary(r, ATEN_SPYRE_RSQRT, &x, &into, NULL);
    if (exponent == -1) return make_unary(r, ATEN_SPYRE_RECIPROCAL, &x, &into, NULL);
    if (rewrite_takes(r, ATEN_SPYRE_POWER, into.dtype) && rewrite_allows(r, OPFUNC_POWER))
        return make_parametric_of(r, ATEN_SPYRE_POWER, &x, &number, &(graph_number){0}, &into,
                                  NULL);
    if (number.scalar || (exponent != 3 && exponent != -2)) {
        return status_new(SPYRE_UNSUPPORTED, "pow with exponent %g", exponent);
    }
    TRY(power_of_two(r, &x, 1, NULL, &power));
    if (exponent == -2) return make_unary(r, ATEN_SPYRE_RECIPROCAL, &power, &into, NULL);
    return make_binary(r, ATEN_SPYRE_MUL, &power, &x, &into, NULL);
}

static spyre_status power_of_base(rewriter *r, const graph_number *base, const tensor *into)
{
    tensor x, constant;
    TRY(rewrite_expect_allowed(r, OPFUNC_POW));
    TRY(rewrite_operand(r, 1, into->dtype, &x));
    TRY(make_number(r, base, into->dtype, &constant));
    return make_binary(r, ATEN_SPYRE_POW, &constant, &x, into, NULL);
}

// base ^ x, of the base in the dtype of x, of which PyTorch makes it a tensor. The logarithm's
// rounding grows with x, which 16 bits do not show and 32 would.
spyre_status rewrite_power_of(rewriter *r)
{
    tensor x, into;
    graph_number base;
    TRY(rewrite_result(r, 0, &into));
    TRY(graph_arg_number(r->source, r->node, 0, 0, &base));
    if (into.dtype == SPYRE_DTYPE_F32 && rewrite_takes(r, ATEN_SPYRE_POW, into.dtype))
        return power_of_base(r, &base, &into);
    if (into.dtype != SPYRE_DTYPE_F16 && into.dtype != SPYRE_DTYPE_BF16)
        return status_new(SPYRE_UNSUPPORTED, "powers in %s", spyre_dtype_name(into.dtype));
    base.form = into.dtype == SPYRE_DTYPE_F16 ? SPYRE_SCALAR_LOG_F16 : SPYRE_SCALAR_LOG_BF16;
    double logarithm = scalar_apply(base.form, base.value);
    if (!isfinite(logarithm) || logarithm == 0)
        return status_new(SPYRE_UNSUPPORTED, "powers of %g", base.value);
    if (!base.scalar) base = (graph_number){.value = logarithm};
    TRY(rewrite_operand(r, 1, SPYRE_DTYPE_F32, &x));
    TRY(make_with_number(r, ATEN_SPYRE_MUL, &x, &base, NULL, &x));
    TRY(make_unary(r, ATEN_SPYRE_EXP, &x, NULL, &x));
    return make_cast(r, &x, into.dtype, &into, NULL);
}

// --- Quotients and remainders

// Integers are not divided by 0, where PyTorch raises. Of a tensor the caller has seen to that.
static spyre_status expect_divisor(const rewriter *r, spyre_dtype dtype)
{
    bool is_integer = dtype == SPYRE_DTYPE_I64 || dtype == SPYRE_DTYPE_I32;
    graph_number number;
    if (!is_integer || r->from->args[1].kind == SPYRE_ARG_VALUE) return NULL;
    TRY(graph_arg_number(r->source, r->node, 1, 0, &number));
    return number.value == 0 ? status_new(SPYRE_UNSUPPORTED, "integers divided by 0") : NULL;
}

// 1 / y, in *out, where that is exact in every format: what it multiplies is then the quotient.
static spyre_status find_inverse(const rewriter *r, spyre_dtype dtype, double *out)
{
    graph_number number;
    int exponent;
    *out = 0.0;
    const bool floats = dtype == SPYRE_DTYPE_F32 || dtype == SPYRE_DTYPE_F16 ||
                        dtype == SPYRE_DTYPE_BF16;
    if (!floats || r->from->args[1].kind == SPYRE_ARG_VALUE) return NULL;
    TRY(graph_arg_number(r->source, r->node, 1, 0, &number));
    const bool is_power = fabs(frexp(number.value, &exponent)) == 0.5;
    if (!number.scalar && is_power && abs(exponent - 1) <= MOST_EXACT) *out = 1.0 / number.value;
    return NULL;
}

static spyre_status divide(rewriter *r, opfunc op)
{
    tensor x, y, into;
    double inverse;
    TRY(rewrite_expect_allowed(r, op));
    TRY(rewrite_result(r, 0, &into));
    TRY(expect_divisor(r, into.dtype));
    TRY(rewrite_operand(r, 0, into.dtype, &x));
    TRY(find_inverse(r, into.dtype, &inverse));
    if (op == OPFUNC_REALDIV && inverse != 0.0)
        return make_with(r, ATEN_SPYRE_MUL, &x, inverse, &into, NULL);
    TRY(rewrite_operand(r, 1, into.dtype, &y));
    return make_binary(r, native_of(op), &x, &y, &into, NULL);
}

spyre_status rewrite_quotient(rewriter *r)
{
    return divide(r, aten_describe((aten_op)r->from->op)->opfunc);
}

// (x, y, rounding_mode)
spyre_status rewrite_div_mode(rewriter *r)
{
    const spyre_arg *mode = r->from->arg_count > 2 ? &r->from->args[2] : NULL;
    if (!mode || mode->kind == SPYRE_ARG_NONE) return divide(r, OPFUNC_REALDIV);
    if (mode->kind == SPYRE_ARG_STRING && strcmp(mode->of.string, "floor") == 0)
        return divide(r, OPFUNC_FLOORDIV);
    if (mode->kind == SPYRE_ARG_STRING && strcmp(mode->of.string, "trunc") == 0)
        return divide(r, OPFUNC_TRUNCDIV);
    return status_new(SPYRE_UNSUPPORTED, "argument 2: no rounding_mode");
}
