// SPDX-License-Identifier: Apache-2.0
//
// Whether the elements that a unit begins with are plain (value_range.h): four instructions of
// 16-bit lanes for 32 of them.
#include "card/codegen/unit_code.h"

// Codes of plain elements without their sign, times 2: the least but 0, and the most.
typedef struct {
    uint32_t least, most;
} plain_codes;

static plain_codes plain_codes_of(const unit_code *c, bool halves)
{
    const uint32_t most = (uint32_t)c->choice.most;
    // The largest of IEEE_FP16 is rounded to more than it has codes for.
    if (halves) return (plain_codes){2 * 0x0400, 2 * (most == 16 ? 0x7BFE : (15 + most) << 10)};
    return (plain_codes){2 * ((uint32_t)(31 + VECTOR_PLAIN_LEAST) << 9), 2 * ((31 + most) << 9)};
}

// most = the most that codes of the step, but for zeros, are beyond the least.
static void look_at_elements(unit_code *c, zmm most)
{
    const mask nonzero = 1;
    const zmm codes = code_new(c);
    code_elements(c, false);
    for (uint32_t pair = 0; pair < code_quarters(c) / 2; pair++) {
        code_load(c, codes, code_pair_at(c, pair));
        code_op(c, VPADDW, codes, codes, in_zmm(codes));
        code_op(c, VPTESTMW, nonzero, codes, in_zmm(codes));
        code_op(c, VPSUBW, codes, codes, code_words(c, plain_codes_of(c, c->step->halves).least));
        code_masked(c, VPMAXUW, most, nonzero, most, in_zmm(codes));
    }
    code_release(c, codes);
}

static bool some_plain(const unit_code *c, bool halves)
{
    for (uint32_t n = 0; n < c->program->count; n++)
        if (c->choice.plain.of[n] && c->program->steps[n].halves == halves) return true;
    return false;
}

static void check_format(unit_code *c, bool halves, mask beyond)
{
    const plain_codes codes = plain_codes_of(c, halves);
    const zmm most = code_new(c);
    code_op(c, VPXORD, most, most, in_zmm(most));
    for (uint32_t n = 0; n < c->program->count; n++) {
        c->step = &c->program->steps[n];
        if (c->choice.plain.of[n] && c->step->halves == halves) look_at_elements(c, most);
    }
    code_op_byte(c, VPCMPUW, beyond, most, code_words(c, codes.most - codes.least), 6);
    code_release(c, most);
}

size_t code_check_plain(unit_code *c)
{
    const bool codes = some_plain(c, false), halves = some_plain(c, true);
    if (codes) check_format(c, false, 2);
    if (halves) check_format(c, true, codes ? 3 : 2);
    if (codes && halves) encode_either(&c->b, 2, 2, 3);
    encode_test_mask(&c->b, 2);
    return encode_jump(&c->b, JUMP_IF_NOT_ZERO);
}
