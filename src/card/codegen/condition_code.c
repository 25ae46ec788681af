// SPDX-License-Identifier: Apache-2.0
//
// What a comparison makes and choices alone take is a bit a lane, in the mask registers k4 to k7,
// instead of ones and zeros that are compared again:
//
//     greaterthan; KEEP; KEPT_X; ..; where3           a comparison and a choice of each quarter
//
// One condition has them at a time, and no call may come before its last choice.
//
// Codes of SEN169_FP16 compare as integers by their ranks: that of a negative one is the negative
// of its magnitude, which gives both zeros the same.
#include "card/codegen/unit_code.h"
#include "tensor/numeric.h"

bool code_comparison_of(opfunc op, code_comparison *out)
{
    switch ((int)op) {
    case OPFUNC_EQUAL: *out = (code_comparison){CODE_EQUAL, false}; return true;
    case OPFUNC_NOTEQUAL: *out = (code_comparison){CODE_NOT_EQUAL, false}; return true;
    case OPFUNC_LESSERTHAN: *out = (code_comparison){CODE_LESS, false}; return true;
    case OPFUNC_LESSEREQUAL: *out = (code_comparison){CODE_LESS_EQUAL, false}; return true;
    case OPFUNC_GREATERTHAN: *out = (code_comparison){CODE_LESS, true}; return true;
    case OPFUNC_GREATEREQUAL: *out = (code_comparison){CODE_LESS_EQUAL, true}; return true;
    default: return false;
    }
}

static zmm rank_of(unit_code *c, zmm codes)
{
    const mask negative = 1;
    const zmm rank = code_new(c);
    const zmm lowest = code_in_register(c, code_words(c, DL16_SIGN));
    code_op(c, VPTESTMW, negative, codes, in_zmm(lowest));
    code_op(c, VMOVAPS, rank, 0, in_zmm(codes));
    code_masked(c, VPSUBW, rank, negative, lowest, in_zmm(codes));
    code_release(c, lowest);
    return rank;
}

// Registers that are the same have the same ranks.
static void ranks_of(unit_code *c, const quarters *codes, quarters *out)
{
    for (uint32_t n = 0; n < code_parts(c); n++) {
        const bool same = n && codes->reg[n] == codes->reg[0];
        out->reg[n] = same ? code_share(c, out->reg[0]) : rank_of(c, codes->reg[n]);
    }
}

void code_compare_ranks(unit_code *c, mask first, code_comparison how)
{
    const uint8_t kind_bits = 7;            // both kinds of comparison have the same
    quarters x, y;
    ranks_of(c, &c->now.x, &x);
    ranks_of(c, &c->now.y, &y);
    for (uint32_t n = 0; n < code_parts(c); n++) {
        const zmm one = how.turned ? y.reg[n] : x.reg[n], two = how.turned ? x.reg[n] : y.reg[n];
        code_op_byte(c, VPCMPW, (mask)(first + n), one, in_zmm(two),
                     (uint8_t)how.order & kind_bits);
    }
    for (uint32_t n = 0; n < code_parts(c); n++) {
        code_release(c, x.reg[n]);
        code_release(c, y.reg[n]);
    }
}

static bool chooses(const vector_step *s)
{
    return s->op == VECTOR_APPLY + OPFUNC_WHERE3 || s->op == VECTOR_APPLY_F32 + OPFUNC_WHERE3;
}

static bool takes_slot(const vector_step *s, uint32_t slot)
{
    return s->op < VECTOR_HELD && s->holds && s->slot == slot;
}

static bool ends_slot(const vector_step *s, uint32_t slot)
{
    return s->op == VECTOR_HOLD_X(slot) || s->op == VECTOR_HOLD_Y(slot);
}

// Of an op behind VECTOR_HELD.
static uint32_t slot_of(const vector_step *s)
{
    return (s->op - VECTOR_HELD) / 4;
}

static const vector_step *end_of(const unit_code *c)
{
    return c->program->steps + c->program->count;
}

// Choices alone take it, and no call comes in between.
static bool is_for_choices(const unit_code *c, const vector_step *from, uint32_t slot)
{
    for (const vector_step *s = from; s < end_of(c) && !ends_slot(s, slot); s++) {
        if (vector_is_formula(s->op)) return false;
        if (s->op == VECTOR_HELD_X(slot) || s->op == VECTOR_HELD_Y(slot)) return false;
        if (takes_slot(s, slot) && !chooses(s)) return false;
    }
    return true;
}

static bool is_needed(const unit_code *c, uint32_t slot)
{
    for (const vector_step *s = c->step; s < end_of(c) && !ends_slot(s, slot); s++)
        if (takes_slot(s, slot)) return true;
    return false;
}

// Another x is there behind it.
static bool replaces_x(const vector_step *s)
{
    if (s->op >= VECTOR_HELD) return (s->op - VECTOR_HELD) % 4 == 2;
    const vector_op_info *info = vector_describe(s->op);
    return info->gives == VECTOR_X && info->at != VECTOR_NOWHERE;
}

// The comparison c->step is held right behind it, and nothing else is done with it.
static bool is_condition(const unit_code *c)
{
    const vector_step *s = c->step, *held = s + 1;
    if (c->paired || s->rounding != VECTOR_AS_IS || held + 1 >= end_of(c)) return false;
    if (held->op < VECTOR_HELD || held->op != VECTOR_HOLD_X(slot_of(held))) return false;
    if (c->condition.held && is_needed(c, c->condition.slot)) return false;
    return replaces_x(held + 1) && is_for_choices(c, held + 1, slot_of(held));
}

bool code_condition(unit_code *c, code_comparison how)
{
    if (!is_condition(c)) return false;
    if (c->narrow) code_compare_ranks(c, CODE_CONDITION, how);
    for (uint32_t q = 0; !c->narrow && q < code_quarters(c); q++) {
        const zmm x = c->now.x.reg[q], y = c->now.y.reg[q];
        code_compare(c, (mask)(CODE_CONDITION + q), how.order, how.turned ? y : x,
                     in_zmm(how.turned ? x : y));
    }
    c->condition.held = true;
    c->condition.made = c->step;
    c->condition.slot = slot_of(c->step + 1);
    return true;
}

bool code_has_condition(const unit_code *c)
{
    return c->condition.held && c->step->holds && c->condition.slot == c->step->slot;
}

bool code_holds_condition(unit_code *c, uint32_t slot)
{
    if (!c->condition.held || c->condition.slot != slot) return false;
    c->condition.held = c->step == c->condition.made + 1;
    return c->condition.held;
}
