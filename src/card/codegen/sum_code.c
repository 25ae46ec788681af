// SPDX-License-Identifier: Apache-2.0
//
// Sums of rows: in registers where all sticks of a row come one after the other, else in memory.
#include "card/codegen/unit_code.h"

// Lanes of a quarter among the first `rest` of a stick: both registers of a pair take turns of 4.
static uint32_t lanes_of(uint32_t quarter, uint32_t rest)
{
    uint32_t lanes = 0;
    for (uint32_t n = 0; n < 16; n++) {
        const uint32_t lane = quarter / 2 * 32 + n / 4 * 8 + quarter % 2 * 4 + n % 4;
        if (lane < rest) lanes |= 1u << n;
    }
    return lanes;
}

// Padding of each stick adds nothing to a sum.
static bool is_all_padding(const vector_step *s, uint32_t quarter)
{
    const bool sums = s->op == VECTOR_SUM || s->op == VECTOR_WIDE_SUM;
    return sums && s->rest && s->rest_of_each && lanes_of(quarter, s->rest) == 0;
}

// Pairs of quarters that enter the sums of a program of loads and sums alone; else all.
uint32_t code_pairs_taken(const vector_program *w)
{
    uint32_t pairs = 1;
    for (uint32_t n = 0; n < w->count; n++) {
        const vector_step *s = &w->steps[n];
        if (s->op != VECTOR_LOAD_X && s->op != VECTOR_SUM) return QUARTERS / 2;
        for (uint32_t q = 2; s->op == VECTOR_SUM && q < QUARTERS; q++)
            if (!is_all_padding(s, q)) pairs = QUARTERS / 2;
    }
    return pairs;
}

// k1 = lanes of a quarter that are no padding, RDX is the next stick.
static void mask_padding(unit_code *c, uint32_t quarter)
{
    const uint32_t lanes = lanes_of(quarter, c->step->rest);
    encode_number(&c->b, RAX, c->step->rest_of_each ? lanes : 0xFFFF);
    if (!c->step->rest_of_each) {
        encode_number(&c->b, RCX, lanes);
        encode_compare(&c->b, RDX, STICKS);
        encode_move_if_equal(&c->b, RAX, RCX);
    }
    encode_mask_from_rax(&c->b, 1);
}

// x, but the neutral element for lanes that are padding.
static quarters without_padding(unit_code *c)
{
    quarters of;
    const zmm neutral = code_in_register(c, code_number(c, vector_neutral(c->step->op)));
    encode_load_address(&c->b, RDX, at_offset(STICK, 1));
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        const uint32_t lanes = c->step->rest_of_each ? lanes_of(q, c->step->rest) : 0;
        if (lanes == 0xFFFF || is_all_padding(c->step, q)) {
            of.reg[q] = code_share(c, c->now.x.reg[q]);
            continue;
        }
        of.reg[q] = code_new(c);
        mask_padding(c, q);
        code_masked(c, VBLENDMPS, of.reg[q], 1, neutral, in_zmm(c->now.x.reg[q]));
    }
    code_release(c, neutral);
    return of;
}

static uint32_t registers_of(const vector_step *s)
{
    return vector_sums_wide(s->op) ? 2 : QUARTERS;
}

// Sums of so many registers join what `sums` has: of wide ones both halves of x, in turn.
static void add_up(unit_code *c, const quarters *sums, const quarters *x)
{
    const uint32_t op = c->step->op, count = registers_of(c->step);
    for (uint32_t q = 0; q < code_quarters(c); q++)
        if (!is_all_padding(c->step, q)) code_combine(c, op, sums->reg[q % count], x->reg[q]);
}

static const quarters *sums_in_registers(const unit_code *c)
{
    for (uint32_t n = 0; c->by_rows && n < 2; n++)
        if (c->summing[n] == c->step) return &c->sums[n];
    return NULL;
}

static void add_up_in_memory(unit_code *c, const quarters *x)
{
    quarters sums;
    code_values(c, ROW_BYTES);
    for (uint32_t n = 0; n < registers_of(c->step); n++) {
        sums.reg[n] = code_new(c);
        code_load(c, sums.reg[n], code_quarter_at(RAX, 0, n));
    }
    add_up(c, &sums, x);
    for (uint32_t n = 0; n < registers_of(c->step); n++) {
        code_store(c, code_quarter_at(RAX, 0, n), sums.reg[n]);
        code_release(c, sums.reg[n]);
    }
}

void code_sum(unit_code *c)
{
    const quarters *held = sums_in_registers(c);
    const quarters x = c->step->rest ? without_padding(c) : c->now.x;
    if (held) add_up(c, held, &x);
    else add_up_in_memory(c, &x);
    for (uint32_t q = 0; c->step->rest && q < code_quarters(c); q++) code_release(c, x.reg[q]);
}

void code_load_sums(unit_code *c)
{
    for (uint32_t n = 0; n < 2 && c->summing[n]; n++) {
        c->step = c->summing[n];
        if (!c->step->begins) code_values(c, ROW_BYTES);
        for (uint32_t r = 0; r < registers_of(c->step); r++) {
            const zmm sum = c->sums[n].reg[r];
            if (c->step->begins) code_op(c, VBROADCASTSS, sum, 0, CODE_FIELD(begin));
            else code_load(c, sum, code_quarter_at(RAX, 0, r));
        }
    }
}

void code_store_sums(unit_code *c)
{
    for (uint32_t n = 0; n < 2 && c->summing[n]; n++) {
        c->step = c->summing[n];
        code_values(c, ROW_BYTES);
        for (uint32_t r = 0; r < registers_of(c->step); r++)
            code_store(c, code_quarter_at(RAX, 0, r), c->sums[n].reg[r]);
    }
}

bool vector_goes_by_rows(const vector_program *w)
{
    uint32_t sums = 0, streams = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        const vector_step *s = &w->steps[n];
        if (vector_stores(s->op)) return false;
        if (vector_describe(s->op)->at == VECTOR_ELEMENTS) streams += s->streams ? 2 : 1;
        sums += vector_sums(s->op);
    }
    return sums > 0 && sums <= 2 && streams <= 1;
}

void code_choose_loops(unit_code *c)
{
    uint32_t sums = 0;
    c->by_rows = vector_goes_by_rows(c->program);
    for (uint32_t n = 0; c->by_rows && n < c->program->count; n++) {
        const vector_step *s = &c->program->steps[n];
        if (!vector_sums(s->op)) continue;
        for (uint32_t r = 0; r < registers_of(s); r++) c->sums[sums].reg[r] = code_new(c);
        c->summing[sums++] = s;
    }
}
