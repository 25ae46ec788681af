// SPDX-License-Identifier: Apache-2.0
//
// Makers of natives that work element by element: numbers, opfuncs of one to three operands,
// comparisons, copies and casts.
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/rewrite/make/make_node.h"
#include "tensor/numeric.h"

static spyre_arg number_arg(const graph_number *number)
{
    if (!number->scalar) return real_arg(number->value);
    return (spyre_arg){.kind = SPYRE_ARG_SCALAR,
                       .of.scalar = {.index = number->scalar - 1,
                                     .form = number->form,
                                     .is_int = number->is_int,
                                     .like = number->value}};
}

static graph_number as_dtype(const graph_number *number, spyre_dtype dtype)
{
    graph_number out = *number;
    if (dtype == SPYRE_DTYPE_BOOL && !out.scalar) out.value = out.value != 0 ? 1 : 0;
    return out;
}

static bool same_number(const graph_number *a, const graph_number *b)
{
    return memcmp(&a->value, &b->value, sizeof a->value) == 0 && a->scalar == b->scalar &&
           a->form == b->form;
}

spyre_status make_number(rewriter *r, const graph_number *number, spyre_dtype dtype, tensor *out)
{
    spyre_view scalar = {0};
    graph_number wanted = as_dtype(number, dtype);
    for (uint32_t i = 0; i < r->constants.count; i++) {
        const rewrite_constant *known = &r->constants.items[i];
        if (!same_number(&known->number, &wanted) || known->dtype != dtype) continue;
        *out = known->made;
        return NULL;
    }
    spyre_arg args[2] = {number_arg(&wanted), {.kind = SPYRE_ARG_DTYPE, .of.dtype = dtype}};
    TRY(make_node(r, ATEN_SPYRE_CONSTANT, args, 2, dtype, &scalar, NULL, out));
    rewrite_constant made = {wanted, dtype, *out};
    return VEC_PUSH(r->target->memory, &r->constants, made);
}

spyre_status make_constant(rewriter *r, double value, spyre_dtype dtype, tensor *out)
{
    return make_number(r, &(graph_number){.value = value}, dtype, out);
}

spyre_status make_full(rewriter *r, double value, spyre_dtype dtype, const spyre_view *sizes,
                       const tensor *into, tensor *out)
{
    return make_full_of(r, &(graph_number){.value = value}, dtype, sizes, into, out);
}

spyre_status make_full_of(rewriter *r, const graph_number *number, spyre_dtype dtype,
                          const spyre_view *sizes, const tensor *into, tensor *out)
{
    spyre_view view = view_contiguous(sizes->size, sizes->rank);
    graph_number wanted = as_dtype(number, dtype);
    spyre_arg args[2] = {number_arg(&wanted), {.kind = SPYRE_ARG_DTYPE, .of.dtype = dtype}};
    if (view.rank == 0) {
        return make_node(r, ATEN_SPYRE_CONSTANT, args, 2, dtype, &view, into, out);
    }
    return make_node(r, ATEN_SPYRE_FULL, args, 1, dtype, &view, into, out);
}

static spyre_dtype result_dtype(aten_op op, spyre_dtype operand)
{
    return aten_describe(op)->result == ATEN_RESULT_BOOL ? SPYRE_DTYPE_BOOL : operand;
}

spyre_status make_unary(rewriter *r, aten_op op, const tensor *x, const tensor *into, tensor *out)
{
    spyre_arg args[1] = {tensor_arg(x)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return make_node(r, op, args, 1, result_dtype(op, x->dtype), &view, into, out);
}

spyre_status broadcast_sizes(const spyre_view *x, const spyre_view *y, spyre_view *out)
{
    const spyre_view *narrow = x->rank > y->rank ? y : x;
    spyre_view wide = x->rank > y->rank ? *x : *y;
    for (uint32_t i = 0; i < narrow->rank; i++) {
        int64_t size = narrow->size[i], *to = &wide.size[i + wide.rank - narrow->rank];
        if (*to != 1 && size != 1 && *to != size) {
            return status_new(SPYRE_INVALID_ARGUMENT, "sizes %lld and %lld do not broadcast",
                              (long long)*to, (long long)size);
        }
        if (*to == 1) *to = size;
    }
    *out = view_contiguous(wide.size, wide.rank);
    return NULL;
}

static spyre_status apply(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                          const tensor *into, tensor *out)
{
    spyre_arg args[2] = {tensor_arg(x), tensor_arg(y)};
    spyre_view view;
    TRY(broadcast_sizes(&x->view, &y->view, &view));
    return make_node(r, op, args, 2, result_dtype(op, x->dtype), &view, into, out);
}

static spyre_status apply_with(rewriter *r, aten_op op, const tensor *x, double value,
                               const tensor *into, tensor *out)
{
    tensor constant;
    TRY(make_constant(r, value, x->dtype, &constant));
    return apply(r, op, x, &constant, into, out);
}

// --- Comparisons of float32, which the card has none of: numbers that were widened are compared as
// they were, of all others the sign of a distance with 0 in 16 bits. Three ops of float32 and one
// of 16 bits, unless equal infinities may meet.

// The sign of x - y as a number of 16 bits; of NaN infinity, which is what 16 bits have of it.
// Numbers that differ have a distance other than 0, for it may be subnormal, and 2^-22 is left of
// the least, 2^-149.
static spyre_status sign_of_distance(rewriter *r, const tensor *x, const tensor *y, tensor *out)
{
    TRY(apply(r, ATEN_SPYRE_SUB, x, y, NULL, out));
    TRY(apply_with(r, ATEN_SPYRE_MUL, out, 0x1p127, NULL, out));
    return make_cast(r, out, SPYRE_DTYPE_F16, NULL, out);
}

// True where x or y is NaN (GREATERTHAN) or neither is (LESSEREQUAL).
static spyre_status find_nan(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                             const tensor *into, tensor *out)
{
    tensor size;
    TRY(apply(r, ATEN_SPYRE_MAXIMUM, x, y, NULL, &size));
    TRY(apply_with(r, ATEN_SPYRE_MINIMUM, &size, 1, NULL, &size));
    TRY(make_cast(r, &size, SPYRE_DTYPE_F16, NULL, &size));
    return apply_with(r, op, &size, 1, into, out);
}

// The number of a constant, or null.
static const graph_number *number_of(const rewriter *r, const tensor *x)
{
    for (uint32_t i = 0; i < r->constants.count; i++)
        if (r->constants.items[i].made.value == x->value) return &r->constants.items[i].number;
    return NULL;
}

// Where equal infinities do not meet a comparison is one of a distance with 0. That of x >= y is
// the reverse one, so that a NaN does not hold.
static spyre_status compare_apart(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                                  const tensor *into, tensor *out)
{
    bool turns = op == ATEN_SPYRE_GREATERTHAN || op == ATEN_SPYRE_GREATEREQUAL;
    if (op == ATEN_SPYRE_GREATERTHAN) op = ATEN_SPYRE_LESSERTHAN;
    if (op == ATEN_SPYRE_GREATEREQUAL) op = ATEN_SPYRE_LESSEREQUAL;
    tensor sign;
    TRY(sign_of_distance(r, turns ? y : x, turns ? x : y, &sign));
    return apply_with(r, op, &sign, 0, into, out);
}

// x == inf is x > the largest number, x != inf what does not hold of that, NaN included.
static spyre_status compare_with_infinity(rewriter *r, aten_op op, const tensor *x, double infinity,
                                          const tensor *into, tensor *out)
{
    tensor most, sign;
    TRY(make_constant(r, infinity > 0 ? FLT_MAX : -FLT_MAX, x->dtype, &most));
    TRY(sign_of_distance(r, infinity > 0 ? &most : x, infinity > 0 ? x : &most, &sign));
    bool equal = op == ATEN_SPYRE_EQUAL;
    aten_op sign_is = equal ? ATEN_SPYRE_LESSERTHAN : ATEN_SPYRE_GREATEREQUAL;
    return apply_with(r, sign_is, &sign, 0, into, out);
}

// Equal infinities have NaN for a distance, as NaN has: x >= y is not x < y unless one is NaN, and
// equal numbers have no distance below 0, whichever way round.
static spyre_status compare_any(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                                const tensor *into, tensor *out)
{
    bool differs = op == ATEN_SPYRE_NOTEQUAL, turns = op == ATEN_SPYRE_LESSEREQUAL;
    tensor sign, holds, ordered;
    if (op == ATEN_SPYRE_EQUAL || differs) {
        TRY(apply(r, ATEN_SPYRE_SUB, x, y, NULL, &sign));
        TRY(make_unary(r, ATEN_SPYRE_ABS, &sign, NULL, &sign));
        TRY(apply_with(r, ATEN_SPYRE_MUL, &sign, -0x1p127, NULL, &sign));
        TRY(make_cast(r, &sign, SPYRE_DTYPE_F16, NULL, &sign));
    } else {
        TRY(sign_of_distance(r, turns ? y : x, turns ? x : y, &sign));
    }
    aten_op sign_is = differs ? ATEN_SPYRE_LESSERTHAN : ATEN_SPYRE_GREATEREQUAL;
    TRY(apply_with(r, sign_is, &sign, 0, NULL, &holds));
    aten_op nan_is = differs ? ATEN_SPYRE_GREATERTHAN : ATEN_SPYRE_LESSEREQUAL;
    TRY(find_nan(r, nan_is, x, y, NULL, &ordered));
    aten_op both = differs ? ATEN_SPYRE_MAXIMUM : ATEN_SPYRE_MUL;
    return apply(r, both, &holds, &ordered, into, out);
}

static bool is_finite(const graph_number *number)
{
    return number && (number->scalar ? !number->form : isfinite((float)number->value));
}

static bool is_same(const tensor *x, const tensor *y)
{
    return x->value == y->value && view_same(&x->view, &y->view);
}

static bool fits_16_bits(const graph_number *number)
{
    if (!number || number->scalar) return false;
    const float value = (float)number->value;
    return dl16_to_float(dl16_from_float(value)) == value;
}

// To the numbers of 16 bits that both were widened from, of which one may be a constant.
static spyre_status narrow_both(rewriter *r, tensor *x, tensor *y)
{
    const graph_number *first = number_of(r, x), *second = number_of(r, y);
    tensor a, b;
    TRY(before_cast(r, x, &a));
    TRY(before_cast(r, y, &b));
    if (fits_16_bits(first)) TRY(make_constant(r, first->value, b.dtype, &a));
    else if (fits_16_bits(second)) TRY(make_constant(r, second->value, a.dtype, &b));
    if (a.dtype != b.dtype) return NULL;
    *x = a;
    *y = b;
    return NULL;
}

static spyre_status compare_floats(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                                   const tensor *into, tensor *out)
{
    bool strict = op == ATEN_SPYRE_GREATERTHAN || op == ATEN_SPYRE_LESSERTHAN;
    bool equal = op == ATEN_SPYRE_EQUAL || op == ATEN_SPYRE_NOTEQUAL;
    const graph_number *number = number_of(r, y);
    if (equal && is_same(x, y))
        return find_nan(r, op == ATEN_SPYRE_EQUAL ? ATEN_SPYRE_LESSEREQUAL : ATEN_SPYRE_GREATERTHAN,
                        x, y, into, out);
    if (strict || is_finite(number) || is_finite(number_of(r, x)))
        return compare_apart(r, op, x, y, into, out);
    if (equal && number && !number->scalar && isinf(number->value))
        return compare_with_infinity(r, op, x, number->value, into, out);
    return compare_any(r, op, x, y, into, out);
}

spyre_status make_binary(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                         const tensor *into, tensor *out)
{
    bool compares = aten_describe(op)->result == ATEN_RESULT_BOOL;
    if (!compares || x->dtype != SPYRE_DTYPE_F32) return apply(r, op, x, y, into, out);
    tensor a = *x, b = *y;
    TRY(narrow_both(r, &a, &b));
    if (a.dtype == SPYRE_DTYPE_F32) return compare_floats(r, op, &a, &b, into, out);
    return apply(r, op, &a, &b, into, out);
}

spyre_status make_with(rewriter *r, aten_op op, const tensor *x, double value, const tensor *into,
                       tensor *out)
{
    return make_with_number(r, op, x, &(graph_number){.value = value}, into, out);
}

spyre_status make_with_number(rewriter *r, aten_op op, const tensor *x, const graph_number *number,
                              const tensor *into, tensor *out)
{
    tensor constant;
    TRY(make_number(r, number, x->dtype, &constant));
    return make_binary(r, op, x, &constant, into, out);
}

spyre_status make_where(rewriter *r, const tensor *condition, const tensor *x, const tensor *y,
                        const tensor *into, tensor *out)
{
    spyre_view values, view;
    tensor wide = *condition;
    if (spyre_dtype_card_format(x->dtype) != SPYRE_FORMAT_SEN169_FP16)
        TRY(make_cast(r, condition, x->dtype, NULL, &wide));
    spyre_arg args[3] = {tensor_arg(&wide), tensor_arg(x), tensor_arg(y)};
    TRY(broadcast_sizes(&x->view, &y->view, &values));
    TRY(broadcast_sizes(&condition->view, &values, &view));
    return make_node(r, ATEN_SPYRE_WHERE3, args, 3, x->dtype, &view, into, out);
}

spyre_status make_parametric(rewriter *r, aten_op op, const tensor *x, double first, double second,
                             const tensor *into, tensor *out)
{
    spyre_arg args[3] = {tensor_arg(x), real_arg(first), real_arg(second)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return make_node(r, op, args, 3, x->dtype, &view, into, out);
}

spyre_status make_parametric_of(rewriter *r, aten_op op, const tensor *x,
                                const graph_number *first, const graph_number *second,
                                const tensor *into, tensor *out)
{
    if (!first->scalar && !second->scalar)
        return make_parametric(r, op, x, first->value, second->value, into, out);
    const opfunc_info *info = opfunc_describe(aten_describe(op)->opfunc);
    tensor parameters[2];
    TRY(make_number(r, first, SPYRE_DTYPE_F32, &parameters[0]));
    TRY(make_number(r, second, SPYRE_DTYPE_F32, &parameters[1]));
    spyre_arg args[3] = {tensor_arg(x), tensor_arg(&parameters[0]), tensor_arg(&parameters[1])};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return make_node(r, op, args, info->most_inputs, x->dtype, &view, into, out);
}

spyre_status make_copy(rewriter *r, const tensor *x, const tensor *into, tensor *out)
{
    return make_unary(r, ATEN_SPYRE_IDENTITY, x, into, out);
}

spyre_status make_cast(rewriter *r, const tensor *x, spyre_dtype dtype, const tensor *into,
                       tensor *out)
{
    if (x->dtype == dtype && into) return make_copy(r, x, into, out);
    if (x->dtype == dtype) {
        *out = *x;
        return NULL;
    }
    if (dtype == SPYRE_DTYPE_BOOL) {
        tensor number = *x;
        if (x->dtype == SPYRE_DTYPE_F8_E4M3)
            TRY(make_cast(r, x, SPYRE_DTYPE_F16, NULL, &number));
        if (aten_is_narrow(x->dtype)) TRY(make_cast(r, x, SPYRE_DTYPE_I32, NULL, &number));
        return make_with(r, ATEN_SPYRE_NOTEQUAL, &number, 0, into, out);
    }
    // Integers wrap in a cast, floats would stop at the ends; uint8 lies in 32 bits.
    tensor given = *x;
    if (aten_is_narrow(dtype)) TRY(make_cast(r, x, SPYRE_DTYPE_I32, NULL, &given));
    if (dtype == SPYRE_DTYPE_U8) TRY(make_with(r, ATEN_SPYRE_BITAND, &given, 255, NULL, &given));
    spyre_arg args[1] = {tensor_arg(&given)};
    spyre_view view = view_contiguous(x->view.size, x->view.rank);
    return make_node(r, ATEN_SPYRE_CAST, args, 1, dtype, &view, into, out);
}
