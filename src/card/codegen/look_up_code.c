// SPDX-License-Identifier: Apache-2.0
//
// Look-ups in tables by the codes of 16-bit elements (look_up.h).
#include "card/codegen/unit_code.h"

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
    if (!c->narrow) code_narrow(c, codes, &c->now.x, pair);
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
    for (uint32_t pair = 0; pair < code_quarters(c) / 2; pair++) {
        const zmm found = look_up_pair(c, pair);
        if (c->narrow) code_set(c, &c->now.x, pair, code_share(c, found));
        else code_widen(c, found, &c->now.x, pair, false);
        code_release(c, found);
    }
}

void code_store_look_up(unit_code *c)
{
    if (c->step->halves) {
        const quarters x = c->now.x;
        for (uint32_t q = 0; q < code_quarters(c); q++) code_share(c, x.reg[q]);
        code_look_up(c);
        code_elements(c, true);
        for (uint32_t pair = 0; pair < code_stored(c); pair++) code_store_halves(c, pair);
        for (uint32_t q = 0; q < code_quarters(c); q++) code_set(c, &c->now.x, q, x.reg[q]);
        return;
    }
    load_table(c);
    for (uint32_t pair = 0; pair < code_stored(c); pair++) {
        const zmm found = look_up_pair(c, pair);
        code_elements(c, false);
        code_store(c, code_pair_at(c, pair), found);
        code_release(c, found);
        load_table(c);
    }
}
