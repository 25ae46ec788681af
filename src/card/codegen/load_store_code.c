// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores: between elements in memory and quarters in registers, converted by
// convert_code.c.
#include "card/codegen/unit_code.h"
#include "tensor/numeric.h"

void code_prefetch_elements(unit_code *c)
{
    encode_prefetch(&c->b, at_index(RDX, c->further, 1, 0));
    if (code_quarters(c) == QUARTERS) encode_prefetch(&c->b, at_index(RDX, c->further, 1, 64));
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
    code_set(c, to, 2 * pair, code_widen_halves(c, codes, plain));
    code_op_byte(c, VEXTRACTI64X4, codes, 0, in_zmm(codes), 1);
    code_set(c, to, 2 * pair + 1, code_widen_halves(c, codes, plain));
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
        code_widen(c, codes, to, pair, plain);
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
    for (uint32_t pair = 0; pair < code_quarters(c) / 2; pair++) {
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
    for (uint32_t pair = 0; pair < code_stored(c); pair++) {
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
        const zmm wide = code_widen_halves(c, to, false);
        code_load(c, to, in_zmm(wide));
        code_release(c, wide);
        return;
    }
    quarters same = {{to, to, to, to}};
    c->users[to] += 2;
    code_widen(c, to, &same, 0, false);
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

void code_store_halves(unit_code *c, uint32_t pair)
{
    cold_code cold = {.does = COLD_STORE_HALVES, .x = c->now.x};
    const zmm a = code_new(c), b = code_new(c), to = code_new(c);
    cold.scratch = code_new(c);
    code_op(c, VMOVAPS, a, 0, in_zmm(c->now.x.reg[2 * pair]));
    code_op(c, VMOVAPS, b, 0, in_zmm(c->now.x.reg[2 * pair + 1]));
    code_round_bits(c, a);
    code_round_bits(c, b);
    code_narrow_halves(c, to, cold.scratch, a, b);
    // Without their sign: infinity and NaN are rare.
    code_op(c, VPADDW, cold.scratch, to, in_zmm(to));
    code_op_byte(c, VPCMPUW, 1, cold.scratch, code_words(c, 0xF800), 5);
    encode_test_mask(&c->b, 1);
    cold.result.reg[0] = a, cold.result.reg[1] = b, cold.result.reg[2] = to;
    code_add_cold(c, cold);
    code_store_unit(c, code_pair_at(c, pair), to);
    code_release(c, a);
    code_release(c, b);
    code_release(c, to);
    code_release(c, cold.scratch);
}

void code_store_rare_halves(unit_code *c, const cold_code *cold)
{
    const zmm *r = cold->result.reg;
    code_limit_halves(c, r[0], cold->scratch);
    code_limit_halves(c, r[1], cold->scratch);
    code_narrow_halves(c, r[2], cold->scratch, r[0], r[1]);
}

// The jump where there is a negative merged code, which are rare and may be of a NaN.
static void look_for_nan(unit_code *c, const cold_code *cold)
{
    const zmm *codes = cold->result.reg;
    code_op(c, VPMAXUW, cold->scratch, codes[0], in_zmm(codes[code_stored(c) - 1]));
    code_op_byte(c, VPCMPUW, 1, cold->scratch, code_words(c, 0xFFFF), CODE_EQUAL);
    encode_test_mask(&c->b, 1);
    code_add_cold(c, *cold);
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
    for (uint32_t pair = 0; pair < code_stored(c); pair++) {
        cold.result.reg[pair] = code_new(c);
        code_narrow_numbers(c, cold.result.reg[pair], cold.x.reg[2 * pair],
                            cold.x.reg[2 * pair + 1], nan);
    }
    if (nan != VALUE_NO_NAN) look_for_nan(c, &cold);
    for (uint32_t pair = 0; pair < code_stored(c); pair++) {
        code_store_unit(c, code_pair_at(c, pair), cold.result.reg[pair]);
        code_release(c, cold.result.reg[pair]);
    }
    code_release(c, cold.result.reg[2]);
    code_release(c, cold.scratch);
}

void code_store_rare(unit_code *c, const cold_code *cold)
{
    const zmm a = cold->scratch, b = cold->result.reg[2];
    for (uint32_t pair = 0; pair < code_stored(c); pair++) {
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
    for (uint32_t pair = 0; c->step->halves && pair < code_stored(c); pair++)
        code_store_halves(c, pair);
    if (!c->step->halves) store_codes(c);
}
