// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores: between elements in memory and quarters in registers, with rounding and
// look-ups by the elements' codes, as simd_avx512.c does it.
#include <math.h>

#include "card/codegen/unit_code.h"
#include "tensor/numeric.h"

void code_prefetch_elements(unit_code *c)
{
    encode_prefetch(&c->b, at_index(RDX, c->further, 1, 0));
    encode_prefetch(&c->b, at_index(RDX, c->further, 1, 64));
}

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

// Half a pair of IEEE_FP16 in the lower half of `codes`.
static zmm widen_halves(unit_code *c, zmm codes, bool plain)
{
    const zmm to = code_new(c);
    code_op(c, VCVTPH2PS, to, 0, in_zmm(codes));
    if (plain) return to;
    code_op(c, VMINPS, to, to, code_number(c, INFINITY));
    code_round_bits(c, to);
    return to;
}

static void load_halves(unit_code *c, quarters *to, uint32_t pair, bool plain)
{
    static const uint32_t turns[] = {0, 0, 2, 0, 4, 0, 6, 0, 1, 0, 3, 0, 5, 0, 7, 0};
    const zmm codes = code_in_register(c, constant_words(&c->b, turns));
    code_op(c, VPERMQ, codes, codes, code_pair_at(c, pair));
    if (plain) {                            // of whose 10 fraction bits one is rounded away
        code_op(c, VPADDW, codes, codes, code_words(c, 1));
        code_op(c, VPANDD, codes, codes, code_words(c, 0xFFFE));
    }
    code_set(c, to, 2 * pair, widen_halves(c, codes, plain));
    code_op_byte(c, VEXTRACTI64X4, codes, 0, in_zmm(codes), 1);
    code_set(c, to, 2 * pair + 1, widen_halves(c, codes, plain));
    code_release(c, codes);
}

void code_load_elements(unit_code *c, quarters *to)
{
    const bool plain = c->is_plain && c->choice.plain.of[c->step - c->program->steps];
    code_elements(c, true);
    code_release_all(c, to);
    code_prefetch_elements(c);
    for (uint32_t pair = 0; pair < c->pairs; pair++) {
        if (c->step->halves) {
            load_halves(c, to, pair, plain);
            continue;
        }
        const zmm codes = code_new(c);
        code_load(c, codes, code_pair_at(c, pair));
        if (plain) widen_plain(c, codes, to, pair);
        else widen(c, codes, to, pair);
        code_release(c, codes);
    }
}

// --- fp32 elements: a pair has them in turns of four

// From the first pair's elements of 4 bytes to the pair's.
static void go_to_pair(unit_code *c, gpr at, uint32_t pair)
{
    if (pair) encode_add_memory(&c->b, at, CODE_FIELD(upper));
}

void code_load_wide(unit_code *c, quarters *to)
{
    code_elements(c, true);
    code_release_all(c, to);
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        go_to_pair(c, RAX, pair);
        go_to_pair(c, RDX, pair);
        encode_prefetch(&c->b, at_index(RDX, c->further, 1, 0));
        encode_prefetch(&c->b, at_index(RDX, c->further, 1, 64));
        const zmm low = code_new(c), a = code_new(c), b = code_new(c);
        code_load(c, low, code_element_at(c, 0));
        code_op_byte(c, VSHUFF32X4, a, low, code_element_at(c, 64), 0x88);
        code_op_byte(c, VSHUFF32X4, b, low, code_element_at(c, 64), 0xDD);
        code_release(c, low);
        code_set(c, to, 2 * pair, a);
        code_set(c, to, 2 * pair + 1, b);
    }
}

void code_store_wide(unit_code *c)
{
    static const uint32_t low[] = {0, 0, 1, 0, 8, 0, 9, 0, 2, 0, 3, 0, 10, 0, 11, 0};
    static const uint32_t high[] = {4, 0, 5, 0, 12, 0, 13, 0, 6, 0, 7, 0, 14, 0, 15, 0};
    code_elements(c, false);
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        const zmm a = c->now.x.reg[2 * pair], b = c->now.x.reg[2 * pair + 1];
        go_to_pair(c, RAX, pair);
        for (uint32_t half = 0; half < 2; half++) {
            const zmm to = code_in_register(c, constant_words(&c->b, half ? high : low));
            code_op(c, VPERMI2PD, to, a, in_zmm(b));
            code_store(c, code_element_at(c, (int32_t)half * 64), to);
            code_release(c, to);
        }
    }
}

static void spread_element(unit_code *c, zmm to)
{
    if (c->step->wide) {
        code_op(c, VBROADCASTSS, to, 0, code_element_at(c, 0));
        return;
    }
    code_op(c, VPBROADCASTW, to, 0, code_element_at(c, 0));
    if (c->step->halves) {
        const zmm wide = widen_halves(c, to, false);
        code_load(c, to, in_zmm(wide));
        code_release(c, wide);
        return;
    }
    quarters same = {{to, to, to, to}};
    c->users[to] += 2;
    widen(c, to, &same, 0);
    code_load(c, to, in_zmm(same.reg[0]));
    code_release(c, same.reg[0]);
    code_release(c, same.reg[1]);
}

void code_spread(unit_code *c, quarters *to)
{
    code_elements(c, false);
    code_release_all(c, to);
    const zmm value = code_new(c);
    spread_element(c, value);
    code_set_all(c, to, value);
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

// Codes of two registers in turns of four, in `to`; of a NaN the merged code with any sign.
static void narrow_numbers(unit_code *c, zmm to, zmm a, zmm b, value_nan nan)
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

// Codes of a pair of x, in `to`.
static void narrow(unit_code *c, zmm to, const quarters *x, uint32_t pair)
{
    const zmm a = code_new(c), b = code_new(c);
    code_op(c, VMINPS, a, x->reg[2 * pair], code_number(c, INFINITY));
    code_op(c, VMINPS, b, x->reg[2 * pair + 1], code_number(c, INFINITY));
    narrow_numbers(c, to, a, b, VALUE_NO_NAN);
    code_release(c, a);
    code_release(c, b);
}

void code_narrow_value(unit_code *c, zmm to, operand from)
{
    const zmm wide = code_new(c);
    code_op(c, VBROADCASTSS, wide, 0, from);
    code_op(c, VMINPS, wide, wide, code_number(c, INFINITY));
    narrow_numbers(c, to, wide, wide, VALUE_NO_NAN);
    code_release(c, wide);
}

// Two registers of fp32 to IEEE_FP16 in turns of four, in `to`.
static void narrow_halves(unit_code *c, zmm to, zmm scratch, zmm a, zmm b)
{
    static const uint32_t order[] = {0, 0, 4, 0, 1, 0, 5, 0, 2, 0, 6, 0, 3, 0, 7, 0};
    const uint8_t nearest = 8;
    code_op_byte(c, VCVTPS2PH, a, 0, in_zmm(to), nearest);
    code_op_byte(c, VCVTPS2PH, b, 0, in_zmm(scratch), nearest);
    code_op_byte(c, VINSERTI64X4, to, to, in_zmm(scratch), 1);
    code_op(c, VMOVUPS, scratch, 0, constant_words(&c->b, order));
    code_op(c, VPERMQ, to, scratch, in_zmm(to));
}

static void add_cold(unit_code *c, cold_code cold)
{
    cold.from = encode_jump(&c->b, JUMP_IF_NOT_ZERO);
    cold.back = c->b.size;
    if (c->colds == CODE_MOST_COLD) c->fails = true;
    else c->cold[c->colds++] = cold;
}

static void store_halves(unit_code *c, uint32_t pair)
{
    cold_code cold = {.does = COLD_STORE_HALVES, .x = c->now.x};
    const zmm a = code_new(c), b = code_new(c), to = code_new(c);
    cold.scratch = code_new(c);
    code_op(c, VMOVAPS, a, 0, in_zmm(c->now.x.reg[2 * pair]));
    code_op(c, VMOVAPS, b, 0, in_zmm(c->now.x.reg[2 * pair + 1]));
    code_round_bits(c, a);
    code_round_bits(c, b);
    narrow_halves(c, to, cold.scratch, a, b);
    // Without their sign: infinity and NaN are rare.
    code_op(c, VPADDW, cold.scratch, to, in_zmm(to));
    code_op_byte(c, VPCMPUW, 1, cold.scratch, code_words(c, 0xF800), 5);
    encode_test_mask(&c->b, 1);
    cold.result.reg[0] = a, cold.result.reg[1] = b, cold.result.reg[2] = to;
    add_cold(c, cold);
    code_store_unit(c, code_pair_at(c, pair), to);
    code_release(c, a);
    code_release(c, b);
    code_release(c, to);
    code_release(c, cold.scratch);
}

// 65504 for 65536, infinity for NaN.
static void limit_halves(unit_code *c, zmm x, zmm scratch)
{
    code_op(c, VMINPS, x, x, code_number(c, INFINITY));
    code_op(c, VPANDD, scratch, x, code_constant(c, 0x7FFFFFFF));
    code_op_byte(c, VPCMPD, 1, scratch, code_constant(c, 0x47800000), CODE_EQUAL);
    code_masked(c, VPSUBD, x, 1, x, code_constant(c, 0x2000));
}

static void store_rare_halves(unit_code *c, const cold_code *cold)
{
    const zmm *r = cold->result.reg;
    limit_halves(c, r[0], cold->scratch);
    limit_halves(c, r[1], cold->scratch);
    narrow_halves(c, r[2], cold->scratch, r[0], r[1]);
}

// The jump where there is a negative merged code, which are rare and may be of a NaN.
static void look_for_nan(unit_code *c, const cold_code *cold)
{
    const zmm *codes = cold->result.reg;
    code_op(c, VPMAXUW, cold->scratch, codes[0], in_zmm(codes[1]));
    code_op_byte(c, VPCMPUW, 1, cold->scratch, code_words(c, 0xFFFF), CODE_EQUAL);
    encode_test_mask(&c->b, 1);
    add_cold(c, *cold);
}

static value_nan nan_of_step(const unit_code *c)
{
    const step_marks *marks = c->is_plain ? &c->choice.rounded : &c->choice.always;
    return (value_nan)marks->nan[c->step - c->program->steps];
}

static void store_codes(unit_code *c)
{
    const value_nan nan = nan_of_step(c);
    cold_code cold = {.does = COLD_STORE, .x = c->now.x, .scratch = code_new(c)};
    cold.result.reg[2] = code_new(c);
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        cold.result.reg[pair] = code_new(c);
        narrow_numbers(c, cold.result.reg[pair], cold.x.reg[2 * pair], cold.x.reg[2 * pair + 1],
                       nan);
    }
    if (nan != VALUE_NO_NAN) look_for_nan(c, &cold);
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        code_store_unit(c, code_pair_at(c, pair), cold.result.reg[pair]);
        code_release(c, cold.result.reg[pair]);
    }
    code_release(c, cold.result.reg[2]);
    code_release(c, cold.scratch);
}

// Signs without those of NaN.
static void store_rare_codes(unit_code *c, const cold_code *cold)
{
    const zmm a = cold->scratch, b = cold->result.reg[2];
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        code_op(c, VMINPS, a, cold->x.reg[2 * pair], code_number(c, INFINITY));
        code_op(c, VMINPS, b, cold->x.reg[2 * pair + 1], code_number(c, INFINITY));
        code_op(c, VPACKSSDW, a, a, in_zmm(b));
        // 0xE4: the first where the third is set, else the second.
        code_op_byte(c, VPTERNLOGD, cold->result.reg[pair], a, code_words(c, DL16_MERGED), 0xE4);
    }
}

void code_store_elements(unit_code *c)
{
    code_elements(c, !c->step->streams);
    if (!c->step->streams) code_prefetch_elements(c);
    for (uint32_t pair = 0; c->step->halves && pair < QUARTERS / 2; pair++) store_halves(c, pair);
    if (!c->step->halves) store_codes(c);
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
    for (uint32_t q = 0; q < QUARTERS; q++)
        cold.result.reg[q] = round_quarter(c, q, most, fewest, cold.scratch);
    code_op_byte(c, VPCMPUD, 1, most, code_constant(c, 2 * DL16_MERGED_BITS), 5);
    code_op_byte(c, VPCMPUD, 2, fewest, code_constant(c, least - 1), 1);
    encode_either(&c->b, 1, 1, 2);
    encode_test_mask(&c->b, 1);
    add_cold(c, cold);
    code_release(c, most);
    code_release(c, fewest);
    code_release(c, cold.scratch);
    for (uint32_t q = 0; q < QUARTERS; q++) code_set(c, &c->now.x, q, cold.result.reg[q]);
}

// What becomes zero or infinite, infinity and NaN among the values to round.
static void round_rare(unit_code *c, const cold_code *cold)
{
    for (uint32_t q = 0; q < QUARTERS; q++) {
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
    for (uint32_t q = 0; c->step->rounding != VECTOR_AS_IS && q < QUARTERS; q++) {
        const zmm to = code_new(c);
        code_op(c, VPADDD, to, c->now.x.reg[q], code_constant(c, 1u << 13));
        code_op(c, VPANDD, to, to, code_constant(c, ~0u << DL16_FRACTION_SHIFT));
        code_set(c, &c->now.x, q, to);
    }
}

void code_cold(unit_code *c)
{
    for (uint32_t n = 0; n < c->colds; n++) {
        const cold_code *cold = &c->cold[n];
        set_jump(&c->b, cold->from, c->b.size);
        switch (cold->does) {
        case COLD_ROUND: round_rare(c, cold); break;
        case COLD_STORE: store_rare_codes(c, cold); break;
        case COLD_STORE_HALVES: store_rare_halves(c, cold); break;
        }
        set_jump(&c->b, encode_jump(&c->b, JUMP), cold->back);
    }
}

// --- Look-ups

enum { EIGHT_BYTES = 16 };

// Entries of eight codes in memory, each loaded into its lane.
static zmm look_up_eight(unit_code *c, int32_t codes)
{
    const zmm found = code_new(c);
    code_op(c, VPXORD, found, found, in_zmm(found));
    for (uint8_t n = 0; n < 8; n++) {
        if (n % 4) encode_shift_right(&c->b, RAX, 16);
        else encode_load(&c->b, RAX, at_offset(SLOTS, codes + 2 * n));
        encode_low_word(&c->b, RDX, RAX);
        code_op_byte(c, VPINSRW, found, found, at_index(RCX, RDX, 2, 0), n);
    }
    return found;
}

// Entries of a pair of x, in a new register. Gathers take as long again (look_up.h).
static zmm look_up_pair(unit_code *c, uint32_t pair)
{
    const int32_t at = CALL_X + (int32_t)pair * QUARTER_BYTES;
    const zmm codes = c->narrow ? code_share(c, c->now.x.reg[pair]) : code_new(c);
    if (!c->narrow) narrow(c, codes, &c->now.x, pair);
    code_store(c, at_offset(SLOTS, at), codes);
    code_release(c, codes);
    const zmm all = look_up_eight(c, at);
    for (uint8_t n = 1; n < QUARTER_BYTES / EIGHT_BYTES; n++) {
        const zmm eight = look_up_eight(c, at + n * EIGHT_BYTES);
        code_op_byte(c, VINSERTI32X4, all, all, in_zmm(eight), n);
        code_release(c, eight);
    }
    return all;
}

static void load_table(unit_code *c)
{
    encode_load(&c->b, RCX, CODE_FIELD(table));
}

void code_look_up(unit_code *c)
{
    load_table(c);
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        const zmm found = look_up_pair(c, pair);
        if (c->narrow) code_set(c, &c->now.x, pair, code_share(c, found));
        else widen(c, found, &c->now.x, pair);
        code_release(c, found);
    }
}

void code_store_look_up(unit_code *c)
{
    if (c->step->halves) {
        const quarters x = c->now.x;
        for (uint32_t q = 0; q < QUARTERS; q++) code_share(c, x.reg[q]);
        code_look_up(c);
        code_elements(c, true);
        for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) store_halves(c, pair);
        for (uint32_t q = 0; q < QUARTERS; q++) code_set(c, &c->now.x, q, x.reg[q]);
        return;
    }
    load_table(c);
    for (uint32_t pair = 0; pair < QUARTERS / 2; pair++) {
        const zmm found = look_up_pair(c, pair);
        code_elements(c, false);
        code_store(c, code_pair_at(c, pair), found);
        code_release(c, found);
        load_table(c);
    }
}
