// SPDX-License-Identifier: Apache-2.0
//
// Conversions between elements of 16 bits and quarters of fp32, and rounding of quarters to what
// 16 bits hold, as simd_avx512.c has them.
#include <math.h>

#include "card/codegen/unit_code.h"
#include "tensor/numeric.h"

// --- SEN169_FP16 to fp32

// From codes, which are lost: their upper halves become those of the result, the lower ones its
// last bits. Those of zero and of the merged code, all bits set, are in the code itself.
static void widen(unit_code *c, zmm codes, quarters *to, uint32_t pair)
{
    const mask ordinary = 1;                // neither zero nor merged
    const zmm moved = code_new(c), high = code_new(c);
    code_op(c, VPADDW, moved, codes, code_words(c, 1));
    code_op(c, VPTESTMW, ordinary, moved, code_words(c, DL16_MERGED - 1));
    code_shift(c, SHIFT_WORDS, CODE_SHIFT_SIGNED, moved, codes, 2);
    code_op(c, VPANDD, moved, moved, code_words(c, DL16_SIGN | DL16_MERGED >> 2));
    code_op(c, VPANDD, high, codes, code_words(c, DL16_SIGN | 0x7F80));
    code_masked(c, VPADDW, high, ordinary, moved, code_words(c, DL16_EXPONENT_OFFSET >> 16));
    encode(&c->b, SHIFT_WORDS, CODE_SHIFT_LEFT, codes, in_zmm(codes),
           (encoding){.lanes = ordinary, .zeroes = true, .has_byte = true, .byte = 14});
    code_op(c, VPUNPCKLWD, moved, codes, in_zmm(high));
    code_op(c, VPUNPCKHWD, high, codes, in_zmm(high));
    code_set(c, to, 2 * pair, moved);
    code_set(c, to, 2 * pair + 1, high);
}

void code_round_bits(unit_code *c, zmm reg)
{
    code_op(c, VPADDD, reg, reg, code_constant(c, 1u << 13));
    code_op(c, VPANDD, reg, reg, code_constant(c, ~0u << DL16_FRACTION_SHIFT));
}

// The same of plain elements.
static void widen_plain(unit_code *c, zmm codes, quarters *to, uint32_t pair)
{
    const mask nonzero = 1;
    const zmm high = code_new(c);
    code_op(c, VPTESTMW, nonzero, codes, code_words(c, DL16_MERGED));
    code_shift(c, SHIFT_WORDS, CODE_SHIFT_SIGNED, high, codes, 2);
    code_op(c, VPANDD, high, high, code_words(c, DL16_SIGN | DL16_MERGED >> 2));
    code_masked(c, VPADDW, high, nonzero, high, code_words(c, DL16_EXPONENT_OFFSET >> 16));
    code_shift(c, SHIFT_WORDS, CODE_SHIFT_LEFT, codes, codes, 14);
    const zmm a = code_new(c);
    code_op(c, VPUNPCKLWD, a, codes, in_zmm(high));
    code_op(c, VPUNPCKHWD, high, codes, in_zmm(high));
    code_set(c, to, 2 * pair, a);
    code_set(c, to, 2 * pair + 1, high);
}

void code_widen(unit_code *c, zmm codes, quarters *to, uint32_t pair, bool plain)
{
    if (plain) widen_plain(c, codes, to, pair);
    else widen(c, codes, to, pair);
}

zmm code_widen_halves(unit_code *c, zmm codes, bool plain)
{
    const zmm to = code_new(c);
    code_op(c, VCVTPH2PS, to, 0, in_zmm(codes));
    if (plain) return to;
    code_op(c, VMINPS, to, to, code_number(c, INFINITY));
    code_round_bits(c, to);
    return to;
}

// --- fp32 to SEN169_FP16

// The size of x, of a quiet NaN or what is larger that of the merged code.
static void limit_size(unit_code *c, zmm to, zmm x)
{
    const uint8_t smaller_size = 10;        // the operand of the smaller one, without its sign
    code_op_byte(c, VRANGEPS, to, x, code_constant(c, DL16_MERGED_BITS), smaller_size);
}

// The magnitude of a code, with saturation still to come unless NaN are quiet at most; negative
// where zero is due.
static zmm round_magnitude(unit_code *c, zmm x, value_nan nan)
{
    const zmm to = code_new(c);
    if (nan == VALUE_ANY_NAN) code_op(c, VPANDD, to, x, code_constant(c, 0x7FFFFFFF));
    else limit_size(c, to, x);
    code_op(c, VPSUBD, to, to, code_constant(c, DL16_EXPONENT_OFFSET - (1u << 13)));
    code_shift(c, SHIFT_DWORDS, CODE_SHIFT_SIGNED, to, to, DL16_FRACTION_SHIFT);
    return to;
}

void code_narrow_numbers(unit_code *c, zmm to, zmm a, zmm b, value_nan nan)
{
    const zmm codes = round_magnitude(c, a, nan), more = round_magnitude(c, b, nan);
    code_op(c, VPACKUSDW, codes, codes, in_zmm(more));
    code_op(c, VPACKSSDW, to, a, in_zmm(b));
    if (nan == VALUE_ANY_NAN) code_op(c, VPMINUW, codes, codes, code_words(c, DL16_MERGED));
    // 0xD8: the second where the third is set, else the first.
    code_op_byte(c, VPTERNLOGD, to, codes, code_words(c, DL16_MERGED), 0xD8);
    code_release(c, codes);
    code_release(c, more);
}

void code_narrow(unit_code *c, zmm to, const quarters *x, uint32_t pair)
{
    const zmm a = code_new(c), b = code_new(c);
    code_op(c, VMINPS, a, x->reg[2 * pair], code_number(c, INFINITY));
    code_op(c, VMINPS, b, x->reg[2 * pair + 1], code_number(c, INFINITY));
    code_narrow_numbers(c, to, a, b, VALUE_NO_NAN);
    code_release(c, a);
    code_release(c, b);
}

void code_narrow_value(unit_code *c, zmm to, operand from)
{
    const zmm wide = code_new(c);
    code_op(c, VBROADCASTSS, wide, 0, from);
    code_op(c, VMINPS, wide, wide, code_number(c, INFINITY));
    code_narrow_numbers(c, to, wide, wide, VALUE_NO_NAN);
    code_release(c, wide);
}

void code_narrow_halves(unit_code *c, zmm to, zmm scratch, zmm a, zmm b)
{
    static const uint32_t order[] = {0, 0, 4, 0, 1, 0, 5, 0, 2, 0, 6, 0, 3, 0, 7, 0};
    const uint8_t nearest = 8;
    code_op_byte(c, VCVTPS2PH, a, 0, in_zmm(to), nearest);
    code_op_byte(c, VCVTPS2PH, b, 0, in_zmm(scratch), nearest);
    code_op_byte(c, VINSERTI64X4, to, to, in_zmm(scratch), 1);
    code_op(c, VMOVUPS, scratch, 0, constant_words(&c->b, order));
    code_op(c, VPERMQ, to, scratch, in_zmm(to));
}

void code_limit_halves(unit_code *c, zmm x, zmm scratch)
{
    code_op(c, VMINPS, x, x, code_number(c, INFINITY));
    code_op(c, VPANDD, scratch, x, code_constant(c, 0x7FFFFFFF));
    code_op_byte(c, VPCMPD, 1, scratch, code_constant(c, 0x47800000), CODE_EQUAL);
    code_masked(c, VPSUBD, x, 1, x, code_constant(c, 0x2000));
}

// --- Rounding

// most, fewest: the largest and, zeros aside, the least size of what is rounded, times 2.
static zmm round_quarter(unit_code *c, uint32_t q, zmm most, zmm fewest, zmm size)
{
    const zmm to = code_new(c);
    code_op(c, VPADDD, to, c->now.x.reg[q], code_constant(c, 1u << 13));
    code_op(c, VPANDD, to, to, code_constant(c, ~0u << DL16_FRACTION_SHIFT));
    code_op(c, VPADDD, q ? size : most, to, in_zmm(to));
    if (q) code_op(c, VPMAXUD, most, most, in_zmm(size));
    code_op(c, VPADDD, q ? size : fewest, q ? size : most, code_constant(c, ~0u));
    if (q) code_op(c, VPMINUD, fewest, fewest, in_zmm(size));
    return to;
}

static void round_fast(unit_code *c)
{
    const uint32_t least = 2 * DL16_EXPONENT_OFFSET + (2u << DL16_FRACTION_SHIFT);
    cold_code cold = {.x = c->now.x, .scratch = code_new(c)};
    const zmm most = code_new(c), fewest = code_new(c);
    for (uint32_t q = 0; q < code_quarters(c); q++)
        cold.result.reg[q] = round_quarter(c, q, most, fewest, cold.scratch);
    code_op_byte(c, VPCMPUD, 1, most, code_constant(c, 2 * DL16_MERGED_BITS), 5);
    code_op_byte(c, VPCMPUD, 2, fewest, code_constant(c, least - 1), 1);
    encode_either(&c->b, 1, 1, 2);
    encode_test_mask(&c->b, 1);
    code_add_cold(c, cold);
    code_release(c, most);
    code_release(c, fewest);
    code_release(c, cold.scratch);
    for (uint32_t q = 0; q < code_quarters(c); q++) code_set(c, &c->now.x, q, cold.result.reg[q]);
}

void code_round_rare(unit_code *c, const cold_code *cold)
{
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        const zmm to = cold->result.reg[q], magnitude = cold->scratch;
        code_op(c, VMINPS, to, cold->x.reg[q], code_number(c, INFINITY));
        code_round_bits(c, to);
        code_op(c, VPADDD, magnitude, to, in_zmm(to));
        code_op_byte(c, VPCMPUD, 1, magnitude, code_constant(c, 2 * DL16_EXPONENT_OFFSET), 2);
        code_op_byte(c, VPCMPUD, 2, magnitude, code_constant(c, 2 * DL16_MERGED_BITS), 5);
        code_masked(c, VPANDD, to, 1, to, code_constant(c, 0x80000000));
        // 0xEA: the sign of the first, all of the third.
        code_op(c, VMOVAPS, magnitude, 0, code_constant(c, 0x80000000));
        encode(&c->b, VPTERNLOGD, to, magnitude, code_constant(c, 0x7F800000),
               (encoding){.lanes = 2, .has_byte = true, .byte = 0xEA});
    }
}

void code_round(unit_code *c)
{
    const size_t n = (size_t)(c->step - c->program->steps);
    const bool within = c->is_plain ? c->choice.rounded.of[n] : c->choice.always.of[n];
    if (c->step->rounding == VECTOR_ROUND && !within) {
        round_fast(c);
        return;
    }
    for (uint32_t q = 0; c->step->rounding != VECTOR_AS_IS && q < code_quarters(c); q++) {
        const zmm to = code_new(c);
        code_op(c, VPADDD, to, c->now.x.reg[q], code_constant(c, 1u << 13));
        code_op(c, VPANDD, to, to, code_constant(c, ~0u << DL16_FRACTION_SHIFT));
        code_set(c, &c->now.x, q, to);
    }
}

