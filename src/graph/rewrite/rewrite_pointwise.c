// SPDX-License-Identifier: Apache-2.0
//
// Decompositions that work element by element. Unless a rule says otherwise an op computes in the
// dtype of its result: PyTorch has promoted it already.
#include <math.h>
#include <string.h>

#include "graph/promote.h"
#include "graph/rewrite/rewrite.h"
#include "tensor/scalar.h"

static opfunc row_opfunc(const rewriter *r)
{
    return aten_describe((aten_op)r->from->op)->opfunc;
}

static aten_op row_native(const rewriter *r)
{
    return native_of(row_opfunc(r));
}

spyre_status rewrite_expect_allowed(const rewriter *r, opfunc op)
{
    if (rewrite_allows(r, op)) return NULL;
    const char *name = opfunc_describe(op)->name;
    uint32_t result = r->source->nodes.items[r->node].results[0];
    spyre_dtype dtype = r->source->values.items[result].dtype;
    return status_new(SPYRE_UNSUPPORTED, "%s on %s: %s is no published opfunc", name,
                      spyre_dtype_name(dtype), name);
}

// The node's result and its first operand in that dtype.
static spyre_status load_unary(rewriter *r, tensor *x, tensor *into)
{
    TRY(rewrite_result(r, 0, into));
    return rewrite_operand(r, 0, into->dtype, x);
}

bool rewrite_allows(const rewriter *r, opfunc op)
{
    return opfunc_is_published(op) || !r->rules.published_opfuncs;
}

bool rewrite_takes(const rewriter *r, aten_op native, spyre_dtype dtype)
{
    return aten_takes(native, dtype, r->rules.extended);
}

bool rewrite_is_unary(const rewriter *r)
{
    opfunc op = row_opfunc(r);
    if (op == OPFUNC_NONE || opfunc_describe(op)->kind != OPFUNC_KIND_UNARY) return false;
    if (!rewrite_allows(r, op)) return false;
    spyre_dtype dtype = r->source->values.items[r->from->results[0]].dtype;
    return rewrite_takes(r, native_of(op), rewrite_computed(r, dtype));
}

static bool is_integer(const tensor *x)
{
    return x->dtype == SPYRE_DTYPE_I64 || x->dtype == SPYRE_DTYPE_I32;
}

static bool rounds_to_whole(opfunc op)
{
    return op == OPFUNC_FLOOR || op == OPFUNC_CEIL || op == OPFUNC_ROUND || op == OPFUNC_TRUNC;
}

spyre_status rewrite_unary(rewriter *r)
{
    tensor x, into;
    TRY(load_unary(r, &x, &into));
    if (is_integer(&x) && rounds_to_whole(row_opfunc(r))) return make_copy(r, &x, &into, NULL);
    TRY(rewrite_expect_allowed(r, row_opfunc(r)));
    return make_unary(r, row_native(r), &x, &into, NULL);
}

spyre_status rewrite_relu(rewriter *r)
{
    tensor x, into;
    TRY(load_unary(r, &x, &into));
    if (is_integer(&x)) return make_with(r, ATEN_SPYRE_MAXIMUM, &x, 0, &into, NULL);
    return rewrite_unary(r);
}

static spyre_status negate_integers(rewriter *r, const tensor *x, const tensor *into, tensor *out)
{
    tensor zero;
    TRY(make_constant(r, 0, x->dtype, &zero));
    return make_binary(r, ATEN_SPYRE_SUB, &zero, x, into, out);
}

spyre_status rewrite_neg(rewriter *r)
{
    tensor x, into;
    TRY(load_unary(r, &x, &into));
    if (!is_integer(&x)) return make_unary(r, ATEN_SPYRE_NEG, &x, &into, NULL);
    return negate_integers(r, &x, &into, NULL);
}

spyre_status rewrite_abs(rewriter *r)
{
    tensor x, minus, into;
    TRY(load_unary(r, &x, &into));
    if (!is_integer(&x)) return make_unary(r, ATEN_SPYRE_ABS, &x, &into, NULL);
    TRY(negate_integers(r, &x, NULL, &minus));
    return make_binary(r, ATEN_SPYRE_MAXIMUM, &x, &minus, &into, NULL);
}

static spyre_status silu(rewriter *r, const tensor *x, const tensor *into, tensor *out)
{
    tensor gate;
    if (rewrite_takes(r, ATEN_SPYRE_SILU, x->dtype))
        return make_unary(r, ATEN_SPYRE_SILU, x, into, out);
    TRY(make_unary(r, ATEN_SPYRE_SIGMOID, x, NULL, &gate));
    return make_binary(r, ATEN_SPYRE_MUL, x, &gate, into, out);
}

spyre_status rewrite_silu(rewriter *r)
{
    tensor x, into;
    TRY(load_unary(r, &x, &into));
    return silu(r, &x, &into, NULL);
}

// The gate in its own dtype, as the two operators one after the other have it.
spyre_status rewrite_silu_mul(rewriter *r)
{
    tensor x, gate, y, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &x));
    TRY(silu(r, &x, NULL, &gate));
    TRY(make_cast(r, &gate, into.dtype, NULL, &gate));
    TRY(rewrite_operand(r, 1, into.dtype, &y));
    return make_binary(r, ATEN_SPYRE_MUL, &gate, &y, &into, NULL);
}

// Towards zero, without comparisons, which float32 lacks.
static spyre_status truncate(rewriter *r, const tensor *x, const tensor *into, tensor *out)
{
    tensor minus, above, below;
    TRY(make_unary(r, ATEN_SPYRE_NEG, x, NULL, &minus));
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, x, NULL, &above));
    TRY(make_unary(r, ATEN_SPYRE_RELUFWD, &minus, NULL, &below));
    TRY(make_unary(r, ATEN_SPYRE_FLOOR, &above, NULL, &above));
    TRY(make_unary(r, ATEN_SPYRE_FLOOR, &below, NULL, &below));
    return make_binary(r, ATEN_SPYRE_SUB, &above, &below, into, out);
}

spyre_status rewrite_trunc(rewriter *r)
{
    tensor x, into;
    TRY(load_unary(r, &x, &into));
    if (is_integer(&x)) return make_copy(r, &x, &into, NULL);
    return truncate(r, &x, &into, NULL);
}

// What is left of x without its whole part; float32 takes that part by floor.
spyre_status rewrite_frac(rewriter *r)
{
    tensor x, into, whole;
    TRY(load_unary(r, &x, &into));
    TRY(truncate(r, &x, NULL, &whole));
    return make_binary(r, ATEN_SPYRE_SUB, &x, &whole, &into, NULL);
}

spyre_status rewrite_ceil(rewriter *r)
{
    tensor x, minus, floored, into;
    TRY(load_unary(r, &x, &into));
    if (is_integer(&x)) return make_copy(r, &x, &into, NULL);
    TRY(make_unary(r, ATEN_SPYRE_NEG, &x, NULL, &minus));
    TRY(make_unary(r, ATEN_SPYRE_FLOOR, &minus, NULL, &floored));
    return make_unary(r, ATEN_SPYRE_NEG, &floored, &into, NULL);
}

// (x > 0) - (x < 0), which is 0 of NaN.
spyre_status rewrite_sign(rewriter *r)
{
    tensor x, above, below, into;
    TRY(load_unary(r, &x, &into));
    if (x.dtype == SPYRE_DTYPE_BOOL) return make_copy(r, &x, &into, NULL);
    TRY(make_with(r, ATEN_SPYRE_GREATERTHAN, &x, 0, NULL, &above));
    TRY(make_with(r, ATEN_SPYRE_LESSERTHAN, &x, 0, NULL, &below));
    TRY(make_cast(r, &above, x.dtype, NULL, &above));
    TRY(make_cast(r, &below, x.dtype, NULL, &below));
    return make_binary(r, ATEN_SPYRE_SUB, &above, &below, &into, NULL);
}

spyre_status rewrite_square(rewriter *r)
{
    tensor x, into;
    TRY(load_unary(r, &x, &into));
    return make_binary(r, ATEN_SPYRE_MUL, &x, &x, &into, NULL);
}

// (x, approximate). The two forms differ by up to 5e-4: in 16 bits one opfunc is both.
spyre_status rewrite_gelu(rewriter *r)
{
    tensor x, into, slope, gate;
    const spyre_arg *form = r->from->arg_count > 1 ? &r->from->args[1] : NULL;
    bool is_tanh = form && form->kind == SPYRE_ARG_STRING && strcmp(form->of.string, "tanh") == 0;
    TRY(load_unary(r, &x, &into));
    if (!is_tanh || into.dtype != SPYRE_DTYPE_F32) {
        TRY(rewrite_expect_allowed(r, OPFUNC_GELUFWD));
        return make_unary(r, ATEN_SPYRE_GELUFWD, &x, &into, NULL);
    }
    const double linear = 2 * sqrt(2 / acos(-1));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &x, NULL, &slope));
    TRY(make_with(r, ATEN_SPYRE_MUL, &slope, linear * 0.044715, NULL, &slope));
    TRY(make_with(r, ATEN_SPYRE_ADD, &slope, linear, NULL, &slope));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &slope, NULL, &gate));
    TRY(make_unary(r, ATEN_SPYRE_SIGMOID, &gate, NULL, &gate));
    return make_binary(r, ATEN_SPYRE_MUL, &x, &gate, &into, NULL);
}

spyre_status rewrite_softplus(rewriter *r)
{
    tensor x, into;
    graph_number beta, threshold;
    TRY(load_unary(r, &x, &into));
    TRY(graph_arg_number(r->source, r->node, 1, 1, &beta));
    TRY(graph_arg_number(r->source, r->node, 2, 20, &threshold));
    return make_parametric_of(r, ATEN_SPYRE_SOFTPLUS, &x, &beta, &threshold, &into, NULL);
}

// A bound of clamp: infinite where there is none, or a parameter.
static spyre_status load_bound(rewriter *r, uint32_t index, double otherwise, spyre_dtype dtype,
                               graph_number *out)
{
    TRY(graph_arg_number(r->source, r->node, index, otherwise, out));
    if (isnan(out->value)) return status_new(SPYRE_UNSUPPORTED, "a bound that is NaN");
    *out = number_in(r, *out, dtype);
    return NULL;
}

// clip where the card has it and both bounds are known, else maximum and minimum.
static spyre_status clamp_to(rewriter *r, const tensor *x, const graph_number *least,
                             const graph_number *most, const tensor *into)
{
    bool is_known = !least->scalar && !most->scalar;
    bool has_clip = is_known && rewrite_takes(r, ATEN_SPYRE_CLIP, x->dtype);
    bool has_least = least->value > -HUGE_VAL, has_most = most->value < HUGE_VAL;
    tensor raised = *x;
    if (has_clip && has_least && has_most) {
        return make_parametric(r, ATEN_SPYRE_CLIP, x, least->value, most->value, into, NULL);
    }
    if (has_least) {
        TRY(make_with_number(r, ATEN_SPYRE_MAXIMUM, x, least, has_most ? NULL : into, &raised));
    }
    if (has_most) return make_with_number(r, ATEN_SPYRE_MINIMUM, &raised, most, into, NULL);
    return has_least ? NULL : make_copy(r, x, into, NULL);
}

spyre_status rewrite_clamp(rewriter *r)
{
    tensor x, into;
    graph_number least, most;
    bool is_hardtanh = r->from->op == ATEN_HARDTANH;
    TRY(load_unary(r, &x, &into));
    TRY(load_bound(r, 1, is_hardtanh ? -1 : -HUGE_VAL, x.dtype, &least));
    TRY(load_bound(r, 2, is_hardtanh ? 1 : HUGE_VAL, x.dtype, &most));
    return clamp_to(r, &x, &least, &most, &into);
}

spyre_status rewrite_relu6(rewriter *r)
{
    tensor x, into;
    const graph_number least = {.value = 0}, most = {.value = 6};
    TRY(load_unary(r, &x, &into));
    return clamp_to(r, &x, &least, &most, &into);
}

static bool is_present(const rewriter *r, uint32_t index)
{
    return index < r->from->arg_count && r->from->args[index].kind != SPYRE_ARG_NONE;
}

spyre_status rewrite_clamp_tensor(rewriter *r)
{
    tensor x, bound, into;
    bool has_least = is_present(r, 1), has_most = is_present(r, 2);
    TRY(load_unary(r, &x, &into));
    if (has_least) {
        TRY(rewrite_operand(r, 1, into.dtype, &bound));
        TRY(make_binary(r, ATEN_SPYRE_MAXIMUM, &x, &bound, has_most ? NULL : &into, &x));
    }
    if (!has_most) return has_least ? NULL : make_copy(r, &x, &into, NULL);
    TRY(rewrite_operand(r, 2, into.dtype, &bound));
    return make_binary(r, ATEN_SPYRE_MINIMUM, &x, &bound, &into, NULL);
}

spyre_status rewrite_binary(rewriter *r)
{
    tensor x, y, into;
    TRY(rewrite_expect_allowed(r, row_opfunc(r)));
    TRY(load_unary(r, &x, &into));
    aten_op native = row_native(r);
    bool is_choice = native == ATEN_SPYRE_MAXIMUM || native == ATEN_SPYRE_MINIMUM;
    if (is_choice) TRY(rewrite_stored(r, 1, into.dtype, &y));
    else TRY(rewrite_operand(r, 1, into.dtype, &y));
    return make_binary(r, native, &x, &y, &into, NULL);
}

// first op alpha * second; a sum of bools is that of logic.
static spyre_status add_scaled(rewriter *r, uint32_t first, uint32_t second)
{
    tensor x, y, scaled, into;
    graph_number alpha;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, first, into.dtype, &x));
    TRY(rewrite_operand(r, second, into.dtype, &y));
    TRY(graph_arg_number(r->source, r->node, 2, 1, &alpha));
    bool is_bool = into.dtype == SPYRE_DTYPE_BOOL;
    aten_op native = is_bool && row_opfunc(r) == OPFUNC_ADD ? ATEN_SPYRE_MAXIMUM : row_native(r);
    if (alpha.value == 1) return make_binary(r, native, &x, &y, &into, NULL);
    TRY(make_with_number(r, ATEN_SPYRE_MUL, &y, &alpha, NULL, &scaled));
    return make_binary(r, native, &x, &scaled, &into, NULL);
}

spyre_status rewrite_add(rewriter *r)
{
    return add_scaled(r, 0, 1);
}

spyre_status rewrite_rsub(rewriter *r)
{
    return add_scaled(r, 1, 0);
}

// What sums of products are computed in: of 16 bits in float32, as PyTorch does, so that they are
// rounded once.
static spyre_dtype dtype_of_sums(spyre_dtype dtype)
{
    const bool narrow = dtype == SPYRE_DTYPE_F16 || dtype == SPYRE_DTYPE_BF16;
    return narrow ? SPYRE_DTYPE_F32 : dtype;
}

// x op y in that dtype, which becomes the node's result.
static spyre_status finish_sum(rewriter *r, aten_op op, const tensor *x, const tensor *y,
                               const tensor *into)
{
    tensor sum;
    if (x->dtype == into->dtype) return make_binary(r, op, x, y, into, NULL);
    TRY(make_binary(r, op, x, y, NULL, &sum));
    return make_cast(r, &sum, into->dtype, into, NULL);
}

spyre_status rewrite_addc(rewriter *r)
{
    tensor x, a, b, both, into;
    graph_number value;
    TRY(rewrite_result(r, 0, &into));
    const spyre_dtype dtype = dtype_of_sums(into.dtype);
    TRY(rewrite_operand(r, 0, dtype, &x));
    TRY(rewrite_operand(r, 1, dtype, &a));
    TRY(rewrite_operand(r, 2, dtype, &b));
    TRY(graph_arg_number(r->source, r->node, 3, 1, &value));
    TRY(make_binary(r, row_native(r), &a, &b, NULL, &both));
    if (value.value != 1)
        TRY(make_with_number(r, ATEN_SPYRE_MUL, &both, &value, NULL, &both));
    return finish_sum(r, ATEN_SPYRE_ADD, &x, &both, &into);
}

// From the end that is nearer, as PyTorch does: x + w (y - x), from 0.5 on y - (1 - w) (y - x). The
// other end would leave its own rounding in a small result.
static spyre_status lerp_by_number(rewriter *r, const tensor *x, const tensor *y,
                                   graph_number weight, const tensor *into)
{
    tensor way;
    bool near = fabs(weight.value) < 0.5;
    if (!near && weight.scalar) weight.form = SPYRE_SCALAR_REST;
    else if (!near) weight.value = 1 - weight.value;
    TRY(make_binary(r, ATEN_SPYRE_SUB, y, x, NULL, &way));
    TRY(make_with_number(r, ATEN_SPYRE_MUL, &way, &weight, NULL, &way));
    return near ? finish_sum(r, ATEN_SPYRE_ADD, x, &way, into)
                : finish_sum(r, ATEN_SPYRE_SUB, y, &way, into);
}

spyre_status rewrite_lerp(rewriter *r)
{
    tensor x, y, weight, rest, into;
    TRY(rewrite_result(r, 0, &into));
    const spyre_dtype dtype = dtype_of_sums(into.dtype);
    TRY(rewrite_operand(r, 0, dtype, &x));
    TRY(rewrite_operand(r, 1, dtype, &y));
    if (r->from->op == ATEN_LERP) {
        graph_number number;
        TRY(graph_arg_number(r->source, r->node, 2, 0, &number));
        return lerp_by_number(r, &x, &y, number, &into);
    }
    TRY(rewrite_operand(r, 2, dtype, &weight));
    TRY(make_constant(r, 1, dtype, &rest));
    TRY(make_binary(r, ATEN_SPYRE_SUB, &rest, &weight, NULL, &rest));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &x, &rest, NULL, &rest));
    TRY(make_binary(r, ATEN_SPYRE_MUL, &y, &weight, NULL, &weight));
    return finish_sum(r, ATEN_SPYRE_ADD, &rest, &weight, &into);
}

// x > 0 ? 1 : x == 0 ? y : 0, where there is no opfunc of it.
spyre_status rewrite_heaviside(rewriter *r)
{
    tensor x, y, is_zero, above, one, zero, rest, into;
    TRY(load_unary(r, &x, &into));
    if (!is_integer(&into) && into.dtype != SPYRE_DTYPE_BOOL) return rewrite_binary(r);
    TRY(rewrite_operand(r, 1, into.dtype, &y));
    TRY(make_constant(r, 0, into.dtype, &zero));
    TRY(make_constant(r, 1, into.dtype, &one));
    TRY(make_binary(r, ATEN_SPYRE_EQUAL, &x, &zero, NULL, &is_zero));
    TRY(make_binary(r, ATEN_SPYRE_GREATERTHAN, &x, &zero, NULL, &above));
    TRY(make_where(r, &is_zero, &y, &zero, NULL, &rest));
    return make_where(r, &above, &one, &rest, &into, NULL);
}

spyre_status rewrite_compare(rewriter *r)
{
    tensor x, y, into;
    spyre_dtype dtype;
    TRY(rewrite_result(r, 0, &into));
    TRY(promote_args(r, 0, 1, &dtype));
    TRY(rewrite_stored(r, 0, dtype, &x));
    TRY(rewrite_stored(r, 1, dtype, &y));
    return make_binary(r, row_native(r), &x, &y, &into, NULL);
}

spyre_status rewrite_isnan(rewriter *r)
{
    tensor x, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &x));
    return make_binary(r, ATEN_SPYRE_NOTEQUAL, &x, &x, &into, NULL);
}

spyre_status rewrite_isinf(rewriter *r)
{
    tensor x, size, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &x));
    if (x.dtype == SPYRE_DTYPE_BOOL || is_integer(&x))
        return make_full(r, 0, into.dtype, &into.view, &into, NULL);
    if (r->from->op == ATEN_ISPOSINF)
        return make_with(r, ATEN_SPYRE_EQUAL, &x, INFINITY, &into, NULL);
    if (r->from->op == ATEN_ISNEGINF)
        return make_with(r, ATEN_SPYRE_EQUAL, &x, -INFINITY, &into, NULL);
    TRY(make_unary(r, ATEN_SPYRE_ABS, &x, NULL, &size));
    return make_with(r, ATEN_SPYRE_EQUAL, &size, INFINITY, &into, NULL);
}

spyre_status rewrite_logical_not(rewriter *r)
{
    tensor x, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &x));
    return make_with(r, ATEN_SPYRE_EQUAL, &x, 0, &into, NULL);
}

spyre_status rewrite_signbit(rewriter *r)
{
    tensor x, sign, into;
    TRY(rewrite_expect_allowed(r, OPFUNC_SIGNBIT));
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_tensor(r, 0, &x));
    TRY(make_unary(r, ATEN_SPYRE_SIGNBIT, &x, NULL, &sign));
    return make_cast(r, &sign, into.dtype, &into, NULL);
}

static spyre_status logical(rewriter *r, opfunc op)
{
    tensor x, y, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, SPYRE_DTYPE_BOOL, &x));
    TRY(rewrite_operand(r, 1, SPYRE_DTYPE_BOOL, &y));
    return make_binary(r, native_of(op), &x, &y, &into, NULL);
}

spyre_status rewrite_logical(rewriter *r)
{
    return logical(r, row_opfunc(r));
}

spyre_status rewrite_bitwise_not(rewriter *r)
{
    tensor x, ones, into;
    TRY(load_unary(r, &x, &into));
    if (into.dtype == SPYRE_DTYPE_BOOL) return rewrite_logical_not(r);
    if (!is_integer(&into))
        return status_new(SPYRE_UNSUPPORTED, "bitwise not on %s", spyre_dtype_name(into.dtype));
    TRY(make_constant(r, -1, into.dtype, &ones));
    return make_binary(r, ATEN_SPYRE_SUB, &ones, &x, &into, NULL);
}

// Of bools they are those of logic, shifts PyTorch's errors.
spyre_status rewrite_bitwise(rewriter *r)
{
    tensor into;
    opfunc op = row_opfunc(r);
    TRY(rewrite_result(r, 0, &into));
    if (into.dtype != SPYRE_DTYPE_BOOL) return rewrite_binary(r);
    switch ((int)op) {
    case OPFUNC_BITAND: return logical(r, OPFUNC_MINIMUM);
    case OPFUNC_BITOR: return logical(r, OPFUNC_MAXIMUM);
    case OPFUNC_BITXOR: return logical(r, OPFUNC_NOTEQUAL);
    default: return status_new(SPYRE_UNSUPPORTED, "bools that are shifted");
    }
}

spyre_status rewrite_where(rewriter *r)
{
    tensor condition, x, y, into;
    TRY(rewrite_result(r, 0, &into));
    TRY(rewrite_operand(r, 0, SPYRE_DTYPE_BOOL, &condition));
    TRY(rewrite_stored(r, 1, into.dtype, &x));
    TRY(rewrite_stored(r, 2, into.dtype, &y));
    return make_where(r, &condition, &x, &y, &into, NULL);
}

spyre_status rewrite_masked_fill(rewriter *r)
{
    tensor x, mask, value, into;
    TRY(load_unary(r, &x, &into));
    TRY(rewrite_operand(r, 1, SPYRE_DTYPE_BOOL, &mask));
    TRY(rewrite_stored(r, 2, into.dtype, &value));
    return make_where(r, &mask, &value, &x, &into, NULL);
}
