// SPDX-License-Identifier: Apache-2.0
//
// Operations of the math dialect that are several instructions of the card. Steps write to places
// of their own and the last one to the target, which may be where an operand lies.
#include <math.h>

#include "ktir/lower/lowering.h"
#include "ktir/interpret/tensor.h"

#define STEP(function, to, ...) TRY(LOWER_VECTOR(function, to, __VA_ARGS__))

// Halves away from zero: what truncation cuts off, 1 where it is a half or more, with x's sign;
// each step is exact.
spyre_status lower_round_away(lowering *w, const ktir_op *op, const lowered_tensor *target,
                              const lowered_tensor *x)
{
    lowered_tensor whole, rest, half = lower_constant(target->format, 0.5);
    TRY(lower_scratch_like(w, op, target->format, target, &whole));
    TRY(lower_scratch_like(w, op, target->format, target, &rest));
    STEP(TRUNC, &whole, x);
    STEP(SUB, &rest, x, &whole);
    STEP(ABS, &rest, &rest);
    STEP(GREATEREQUAL, &rest, &rest, &half);
    STEP(COPYSIGN, &rest, &rest, x);
    STEP(ADD, target, &whole, &rest);
    return NULL;
}

spyre_status lower_clamp(lowering *w, const ktir_op *op, const lowered_tensor *target,
                         const lowered_tensor *const *in)
{
    lowered_tensor least;
    TRY(lower_scratch_like(w, op, target->format, target, &least));
    STEP(MINIMUM, &least, in[0], in[2]);
    STEP(MAXIMUM, target, &least, in[1]);
    return NULL;
}

// By the size of |x|.
spyre_status lower_class(lowering *w, const ktir_op *op, const lowered_tensor *target,
                         const lowered_tensor *x)
{
    lowered_tensor size, finite, most = lower_constant(x->format, (double)INFINITY);
    lowered_tensor least = lower_constant(x->format,
                                  ktir_least_normal(ktir_operand_type(w->m, op, 0)->element));
    TRY(lower_scratch_like(w, op, x->format, target, &size));
    STEP(ABS, &size, x);
    switch ((int)op->opcode) {
    case KTIR_OP_ISNAN: STEP(NOTEQUAL, target, &size, &size); return NULL;
    case KTIR_OP_ISINF: STEP(EQUAL, target, &size, &most); return NULL;
    case KTIR_OP_ISFINITE: STEP(LESSERTHAN, target, &size, &most); return NULL;
    default: break;
    }
    TRY(lower_scratch_like(w, op, target->format, target, &finite));
    STEP(LESSERTHAN, &finite, &size, &most);
    STEP(GREATEREQUAL, &size, &size, &least);
    STEP(MUL, target, &finite, &size);
    return NULL;
}

// --- Bits of integers, as numbers without a sign of 32 bits

// Ones of `v`, in each half of all pairs, fours, eights .. of bits at once:
// Henry S. Warren, Hacker's Delight, 5-1.
static spyre_status count_ones(lowering *w, const ktir_op *op, lowered_tensor *v)
{
    static const double masks[] = {0x55555555, 0x33333333, 0x0f0f0f0f, 0x00ff00ff, 0x0000ffff};
    lowered_tensor high;
    TRY(lower_scratch_like(w, op, v->format, v, &high));
    for (uint32_t n = 0; n < sizeof masks / sizeof *masks; n++) {
        lowered_tensor mask = lower_constant(v->format, masks[n]);
        lowered_tensor half = lower_constant(v->format, (double)(1u << n));
        STEP(SHIFTRIGHT, &high, v, &half);
        STEP(BITAND, &high, &high, &mask);
        STEP(BITAND, v, v, &mask);
        STEP(ADD, v, v, &high);
    }
    return NULL;
}

// Ones below and at the highest one.
static spyre_status fill_downwards(lowering *w, const ktir_op *op, lowered_tensor *v)
{
    lowered_tensor below;
    TRY(lower_scratch_like(w, op, v->format, v, &below));
    for (uint32_t n = 1; n < 32; n *= 2) {
        lowered_tensor by = lower_constant(v->format, n);
        STEP(SHIFTRIGHT, &below, v, &by);
        STEP(BITOR, v, v, &below);
    }
    return NULL;
}

// Ones in the place of the zeros below the lowest one, no other ones.
static spyre_status keep_trailing(lowering *w, const ktir_op *op, lowered_tensor *v)
{
    lowered_tensor below;
    const lowered_tensor one = lower_constant(v->format, 1);
    const lowered_tensor all = lower_constant(v->format, 0xffffffff);
    TRY(lower_scratch_like(w, op, v->format, v, &below));
    STEP(SUB, &below, v, &one);
    STEP(BITXOR, v, v, &all);
    STEP(BITAND, v, v, &below);
    return NULL;
}

// A factor for each bit of the power: x, its square, ..; of a negative power 0, but of 1 and -1.
static spyre_status power(lowering *w, const ktir_op *op, uint32_t width,
                          const lowered_tensor *target, const lowered_tensor *const *in)
{
    lowered_tensor rest, bit, square, factor, result, low;
    lowered_tensor one = lower_constant(target->format, 1);
    lowered_tensor zero = lower_constant(target->format, 0);
    lowered_tensor by = lower_constant(SPYRE_FORMAT_SENUINT32, 1);
    TRY(lower_scratch_like(w, op, SPYRE_FORMAT_SENUINT32, target, &rest));
    TRY(lower_scratch_like(w, op, SPYRE_FORMAT_SENUINT32, target, &bit));
    TRY(lower_scratch_like(w, op, target->format, target, &square));
    TRY(lower_scratch_like(w, op, target->format, target, &factor));
    TRY(lower_scratch_like(w, op, target->format, target, &result));
    TRY(lower_scratch_like(w, op, target->format, target, &low));
    STEP(ABS, &rest, in[1]);
    STEP(IDENTITY, &square, in[0]);
    TRY(lower_copy(w, op, &result, &one));
    for (uint32_t n = 0; n < width; n++) {
        STEP(BITAND, &bit, &rest, &by);
        STEP(WHERE3, &factor, &bit, &square, &one);
        STEP(MUL, &result, &result, &factor);
        STEP(SHIFTRIGHT, &rest, &rest, &by);
        STEP(MUL, &square, &square, &square);
    }
    STEP(ABS, &factor, in[0]);
    STEP(NOTEQUAL, &factor, &factor, &one);
    STEP(LESSERTHAN, &low, in[1], &zero);
    STEP(MUL, &factor, &factor, &low);
    STEP(WHERE3, target, &factor, &zero, &result);
    return NULL;
}

spyre_status lower_bits(lowering *w, const ktir_op *op, ktir_integer integer,
                        const lowered_tensor *target, const lowered_tensor *const *in)
{
    ktir_element element = ktir_operand_type(w->m, op, 0)->element;
    uint32_t width = element == KTIR_I1 ? 1 : ktir_element_describe(element)->bytes * 8;
    lowered_tensor v, x = *in[0], all = lower_constant(SPYRE_FORMAT_SENUINT32, 0x1p32 - 1);
    lowered_tensor most = lower_constant(SPYRE_FORMAT_SENUINT32, width);
    if (width > 32) return LOWER_NO(w, op, "the card has the bits of integers of up to 32");
    if (integer == KTIR_INTEGER_POW) return power(w, op, width, target, in);
    if (x.format == SPYRE_FORMAT_IEEE_INT32) x.format = SPYRE_FORMAT_SENUINT32;
    if (x.is_constant && x.value < 0) x.value += 0x1p32;
    if (width < 32) all.value = (double)(1u << width) - 1;
    TRY(lower_scratch_like(w, op, SPYRE_FORMAT_SENUINT32, target, &v));
    STEP(BITAND, &v, &x, &all);
    if (integer == KTIR_INTEGER_CTLZ) TRY(fill_downwards(w, op, &v));
    if (integer == KTIR_INTEGER_CTTZ) TRY(keep_trailing(w, op, &v));
    TRY(count_ones(w, op, &v));
    if (integer == KTIR_INTEGER_CTLZ) STEP(SUB, target, &most, &v);
    else if (integer == KTIR_INTEGER_CTTZ) STEP(MINIMUM, target, &v, &most);
    else STEP(IDENTITY, target, &v);
    return NULL;
}
