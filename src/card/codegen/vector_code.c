// SPDX-License-Identifier: Apache-2.0
//
// The loops of a vector program as machine code, and where its steps have their elements:
//
//     for each stick: for each row: the steps         x and y in registers
//     for each row: for each stick: the steps         where sums are all that leaves the program
#include "card/codegen/vector_code.h"

#include "card/codegen/unit_code.h"

#include <stdlib.h>
#include <string.h>

// --- Quarters

static void share_all(unit_code *c, quarters *to, const quarters *from)
{
    for (uint32_t q = 0; q < code_parts(c); q++) code_set(c, to, q, code_share(c, from->reg[q]));
}

static void load_quarters(unit_code *c, quarters *to, gpr base, int32_t offset)
{
    code_release_all(c, to);
    for (uint32_t q = 0; q < code_parts(c); q++) {
        const zmm reg = code_new(c);
        code_load(c, reg, code_quarter_at(base, offset, q));
        code_set(c, to, q, reg);
    }
}

static void store_quarters(unit_code *c, const quarters *from, gpr base, int32_t offset)
{
    for (uint32_t q = 0; q < code_quarters(c); q++)
        code_store(c, code_quarter_at(base, offset, q), from->reg[q]);
}

static void load_values(unit_code *c, quarters *to, gpr offset)
{
    code_values(c, offset);
    load_quarters(c, to, RAX, 0);
}

static void load_ready(unit_code *c, quarters *to)
{
    code_elements(c, false);
    code_release_all(c, to);
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        const zmm reg = code_new(c);
        code_load(c, reg, code_element_at(c, (int32_t)q * QUARTER_BYTES));
        code_set(c, to, q, reg);
    }
}

static void repeat_row(unit_code *c, quarters *to)
{
    encode_load(&c->b, RAX, CODE_FIELD(values));
    code_release_all(c, to);
    const zmm value = code_new(c);
    code_op(c, VBROADCASTSS, value, 0, at_index(RAX, ROW, 4, c->second ? 4 : 0));
    code_set_all(c, to, value);
}

static void zero(unit_code *c, quarters *to)
{
    code_release_all(c, to);
    const zmm value = code_new(c);
    code_op(c, VPXORD, value, value, in_zmm(value));
    code_set_all(c, to, value);
}

// --- Steps

// A later step of the program takes what the slot has now.
static bool is_taken_later(const unit_code *c, uint32_t slot)
{
    const vector_step *end = c->program->steps + c->program->count;
    for (const vector_step *s = c->step + 1; s < end; s++) {
        if (s->holds && s->slot == slot) return true;
        if (s->op == VECTOR_HELD_X(slot) || s->op == VECTOR_HELD_Y(slot)) return true;
        if (s->op == VECTOR_HOLD_X(slot) || s->op == VECTOR_HOLD_Y(slot)) return false;
    }
    return false;
}

static void drop_slot(unit_code *c, uint32_t slot)
{
    for (uint32_t q = 0; c->now.slot[slot].held && q < code_parts(c); q++)
        code_release(c, c->now.slot[slot].at.reg[q]);
    c->now.slot[slot].held = false;
}

static void hold(unit_code *c, uint32_t slot, const quarters *from)
{
    drop_slot(c, slot);
    if (code_holds_condition(c, slot)) return;
    c->now.slot[slot].held = is_taken_later(c, slot);
    for (uint32_t q = 0; c->now.slot[slot].held && q < code_parts(c); q++)
        c->now.slot[slot].at.reg[q] = code_share(c, from->reg[q]);
}

static void take_held(unit_code *c, uint32_t slot, quarters *to)
{
    if (c->now.slot[slot].held) share_all(c, to, &c->now.slot[slot].at);
    else load_quarters(c, to, SLOTS, (int32_t)(slot * UNIT_BYTES));
}

static void take_slot(unit_code *c, uint32_t op)
{
    const uint32_t slot = (op - VECTOR_HELD) / 4;
    if (op == VECTOR_HOLD_X(slot)) hold(c, slot, &c->now.x);
    else if (op == VECTOR_HOLD_Y(slot)) hold(c, slot, &c->now.y);
    else take_held(c, slot, op == VECTOR_HELD_X(slot) ? &c->now.x : &c->now.y);
}

// A slot whose value no step behind this one takes has no registers any more.
static void drop_slots(unit_code *c)
{
    for (uint32_t slot = 0; slot < VECTOR_SLOTS; slot++)
        if (c->now.slot[slot].held && !is_taken_later(c, slot)) drop_slot(c, slot);
}

static void keep(unit_code *c, const quarters *from)
{
    code_values(c, KEPT_BYTES);
    store_quarters(c, from, RAX, 0);
}

static void in_fp32(unit_code *c, avx512 op)
{
    for (uint32_t q = 0; q < code_quarters(c); q++) {
        const zmm to = code_new(c);
        code_op(c, op, to, c->now.x.reg[q], in_zmm(c->now.y.reg[q]));
        code_set(c, &c->now.x, q, to);
    }
}

static void take_step(unit_code *c)
{
    const uint32_t op = c->step->op;
    if (c->narrow && code_narrow_step(c)) return;
    switch (op) {
    case VECTOR_LOAD_X: code_load_elements(c, &c->now.x); break;
    case VECTOR_LOAD_Y: code_load_elements(c, &c->now.y); break;
    case VECTOR_WIDE_X: code_load_wide(c, &c->now.x); break;
    case VECTOR_WIDE_Y: code_load_wide(c, &c->now.y); break;
    case VECTOR_READY_X: load_ready(c, &c->now.x); break;
    case VECTOR_KEPT_X: load_values(c, &c->now.x, KEPT_BYTES); break;
    case VECTOR_KEPT_Y: load_values(c, &c->now.y, KEPT_BYTES); break;
    case VECTOR_LINE_Y: load_values(c, &c->now.y, STICK_BYTES); break;
    case VECTOR_ROWS_X: repeat_row(c, &c->now.x); break;
    case VECTOR_ROWS_Y: repeat_row(c, &c->now.y); break;
    case VECTOR_SPREAD_X: code_spread(c, &c->now.x); break;
    case VECTOR_SPREAD_Y: code_spread(c, &c->now.y); break;
    case VECTOR_X_TO_Y: share_all(c, &c->now.y, &c->now.x); break;
    case VECTOR_ZERO_Y: zero(c, &c->now.y); break;
    case VECTOR_SUB_F32: in_fp32(c, VSUBPS); break;
    case VECTOR_MUL_F32: in_fp32(c, VMULPS); break;
    case VECTOR_ADD_F32: in_fp32(c, VADDPS); break;
    case VECTOR_EXP: code_exp(c); break;
    case VECTOR_LOOK_UP: code_look_up(c); break;
    case VECTOR_STORE: code_store_elements(c); break;
    case VECTOR_STORE_WIDE: code_store_wide(c); break;
    case VECTOR_STORE_LOOK_UP: code_store_look_up(c); break;
    case VECTOR_KEEP: keep(c, &c->now.x); break;
    case VECTOR_KEEP_Y: keep(c, &c->now.y); break;
    default:
        if (vector_sums(op)) code_sum(c);
        else if (op >= VECTOR_HELD) take_slot(c, op);
        else if (vector_is_formula(op)) code_formula(c);
        else code_opfunc(c, op);
        break;
    }
    if (!c->narrow && !vector_is_formula(op)) code_round(c);
}

// To the other row.
static void turn(unit_code *c)
{
    const unit_values now = c->now;
    c->now = c->other;
    c->other = now;
    c->second = !c->second;
}

static void next_row(unit_code *c)
{
    encode_add_number(&c->b, ROW_BYTES, UNIT_BYTES);
    encode_add_number(&c->b, KEPT_BYTES, UNIT_BYTES);
}

static void take_all_steps(unit_code *c)
{
    c->condition.held = false;
    for (uint32_t unit = 0; unit <= c->paired; unit++) {
        zero(c, &c->now.x);
        share_all(c, &c->now.y, &c->now.x);
        if (c->paired) turn(c);
    }
    for (uint32_t n = 0; n < c->program->count; n++) {
        c->step = &c->program->steps[n];
        for (uint32_t unit = 0; unit <= c->paired; unit++) {
            take_step(c);
            drop_slots(c);
            if (c->paired) turn(c);
        }
    }
}

// The jump where there is no second row.
static size_t look_for_second(unit_code *c)
{
    encode_load_address(&c->b, RAX, at_offset(ROW, 1));
    encode_compare(&c->b, RAX, ROWS);
    return encode_jump(&c->b, JUMP_IF_ZERO);
}

// A unit, or two. Where it depends on their elements whether values need a look at their range, the
// code for one that does stands behind everything else.
static void take_steps(unit_code *c)
{
    c->is_plain = c->looks;
    if (c->paired) c->alone = look_for_second(c);
    code_go_further(c);
    for (uint32_t unit = 0; unit <= c->paired; unit++) {
        if (c->looks) c->wild[unit] = code_check_plain(c);
        c->second = c->paired && !unit;
    }
    take_all_steps(c);
    if (c->paired) {
        next_row(c);
        encode_add_number(&c->b, ROW, 1);
    }
    c->next = c->b.size;
}

// The first of two units alone.
static void part_pair(unit_code *c)
{
    set_jump(&c->b, c->alone, c->b.size);
    for (uint32_t q = 0; q < code_parts(c); q++) {
        code_release(c, c->other.x.reg[q]);
        code_release(c, c->other.y.reg[q]);
    }
    c->paired = false;
}

static void take_wild_steps(unit_code *c)
{
    if (!c->looks && !c->paired) return;
    for (uint32_t unit = 0; c->looks && unit <= c->paired; unit++)
        set_jump(&c->b, c->wild[unit], c->b.size);
    c->is_plain = false;
    if (c->paired) part_pair(c);
    code_go_further(c);
    take_all_steps(c);
    set_jump(&c->b, encode_jump(&c->b, JUMP), c->next);
}

// --- Loops

#define AHEAD at_offset(SLOTS, CODE_AHEAD)  // sticks, or by rows rows
#define FRAME RBP
static const gpr saved[] = {RBP, RBX, R12, R13, R14, R15};
enum { SAVED = sizeof saved / sizeof *saved };

static void clear(unit_code *c, gpr reg)
{
    encode_number(&c->b, reg, 0);
}

static size_t begin_loop(unit_code *c, gpr counter)
{
    clear(c, counter);
    return c->b.size;
}

static void end_loop(unit_code *c, gpr counter, gpr count, size_t label)
{
    encode_add_number(&c->b, counter, 1);
    encode_compare(&c->b, counter, count);
    set_jump(&c->b, encode_jump(&c->b, JUMP_BELOW), label);
}

// Which stick the host fetches meanwhile.
static void find_next(unit_code *c)
{
    code_buffer *b = &c->b;
    encode_load(b, NEXT, AHEAD);
    encode_add(b, NEXT, STICK);
    clear(c, TURNS);
    encode_compare(b, NEXT, STICKS);
    const size_t within = encode_jump(b, JUMP_BELOW);
    encode_subtract(b, NEXT, STICKS);
    encode_add_number(b, TURNS, -1);
    set_jump(b, within, b->size);
}

static void stick_by_stick(unit_code *c)
{
    clear(c, KEPT_BYTES);
    clear(c, STICK_BYTES);
    const size_t stick = begin_loop(c, STICK);
    find_next(c);
    code_find_elements(c);
    clear(c, ROW_BYTES);
    const size_t row = begin_loop(c, ROW);
    take_steps(c);
    next_row(c);
    end_loop(c, ROW, ROWS, row);
    encode_add_number(&c->b, STICK_BYTES, UNIT_BYTES);
    end_loop(c, STICK, STICKS, stick);
}

static void row_by_row(unit_code *c)
{
    encode_load(&c->b, RSI, at_offset(RDI, offsetof(vector_program, rows_ahead)));
    encode_save(&c->b, AHEAD, RSI);
    clear(c, ROW_BYTES);
    clear(c, ROW);
    const size_t done = code_sum_windows(c);
    const size_t row = c->b.size;
    encode_load(&c->b, NEXT, AHEAD);
    encode_add(&c->b, NEXT, ROW);
    code_find_elements(c);
    code_load_sums(c);
    encode_move(&c->b, KEPT_BYTES, ROW_BYTES);
    clear(c, STICK_BYTES);
    const size_t stick = begin_loop(c, STICK);
    take_steps(c);
    encode_move(&c->b, RAX, ROWS);
    encode_shift_left(&c->b, RAX, 8);
    encode_add(&c->b, KEPT_BYTES, RAX);
    encode_add_number(&c->b, STICK_BYTES, UNIT_BYTES);
    end_loop(c, STICK, STICKS, stick);
    code_store_sums(c);
    encode_add_number(&c->b, ROW_BYTES, UNIT_BYTES);
    end_loop(c, ROW, ROWS, row);
    if (done) set_jump(&c->b, done, c->b.size);
}

// A vector_loop, as the System V ABI calls it.
static void enter(unit_code *c)
{
    code_buffer *b = &c->b;
    for (uint32_t n = 0; n < SAVED; n++) encode_push(b, saved[n]);
    encode_move(b, FRAME, RSP);
    encode_add_number(b, RSP, -CODE_FRAME_BYTES);
    encode_and_number(b, RSP, -QUARTER_BYTES);
    encode_save(b, AHEAD, RSI);
    encode_load(b, STEPS, at_offset(RDI, offsetof(vector_program, steps)));
    encode_load(b, ROWS, at_offset(RDI, offsetof(vector_program, rows)));
    encode_load(b, STICKS, at_offset(RDI, offsetof(vector_program, sticks)));
}

static bool streams(const vector_program *w)
{
    for (uint32_t n = 0; n < w->count; n++)
        if (w->steps[n].streams) return true;
    return false;
}

static void leave(unit_code *c)
{
    if (streams(c->program)) encode_store_fence(&c->b);
    encode_move(&c->b, RSP, FRAME);
    for (uint32_t n = SAVED; n-- > 0;) encode_pop(&c->b, saved[n]);
    encode_return(&c->b);
}

// All that happens seldom, behind everything else.
static void write_cold(unit_code *c)
{
    for (uint32_t n = 0; n < c->colds; n++) {
        const cold_code *cold = &c->cold[n];
        set_jump(&c->b, cold->from, c->b.size);
        switch (cold->does) {
        case COLD_ROUND: code_round_rare(c, cold); break;
        case COLD_STORE: code_store_rare(c, cold); break;
        case COLD_STORE_HALVES: code_store_rare_halves(c, cold); break;
        }
        set_jump(&c->b, encode_jump(&c->b, JUMP), cold->back);
    }
}

static bool write_code(unit_code *c)
{
    // x and y are somewhere from the beginning.
    c->users[0] = (uint8_t)((c->paired ? 4 : 2) * code_parts(c));
    enter(c);
    code_load_constants(c);
    code_load_same(c);
    c->pairs = code_pairs_taken(c->program);
    if (c->pairs > code_quarters(c) / 2) c->pairs = code_quarters(c) / 2;
    code_choose_loops(c);
    if (c->by_rows) row_by_row(c);
    else stick_by_stick(c);
    leave(c);
    take_wild_steps(c);
    write_cold(c);
    for (uint32_t unused = 1; c->b.constants < CODE_CONSTANT_REGISTERS; unused++)
        constant_of(&c->b, unused);
    finish_code(&c->b);
    return !c->fails && !c->b.overflows;
}

// Two units in turns where one alone waits for each of its steps: the host does not look as far
// ahead as to the next. Steps that go through memory would wait for each other.
static bool gains_by_pairs(const vector_program *w)
{
    enum { MANY_STEPS = 8 };
    uint32_t steps = 0;
    for (uint32_t n = 0; n < w->count; n++) {
        const uint32_t op = w->steps[n].op;
        const bool divides = op == VECTOR_FORMULA + OPFUNC_FLOORDIV;
        if (vector_sums(op) || op == VECTOR_LOOK_UP || op == VECTOR_STORE_LOOK_UP) return false;
        if (vector_is_formula(op) && !divides) return false;
        steps += divides ? MANY_STEPS : op >= VECTOR_APPLY && op < VECTOR_FORMULA;
    }
    return steps >= MANY_STEPS || w->half;
}

// Calls take whole units.
static bool has_calls(const vector_program *w)
{
    for (uint32_t n = 0; n < w->count; n++)
        if (vector_is_formula(w->steps[n].op)) return true;
    return false;
}

bool write_vector_code(code_buffer *b, const vector_program *w)
{
    _Static_assert(sizeof(size_t) == 8, "machine code of x86-64");
    // Two units, or twice the steps, may be too much.
    enum { PAIRED = 2, LOOKS = 1 };
    unit_code *c = calloc(1, sizeof *c);
    bool good = false;
    if (!c) return false;
    plain_choice choice;
    const bool narrow = vector_is_narrow(w);
    const uint32_t looks = !narrow && choose_plain(w, &choice) ? LOOKS : 0;
    uint32_t way = looks | (gains_by_pairs(w) ? PAIRED : 0);
    for (;; way = way & PAIRED ? way & LOOKS : 0) {
        *c = (unit_code){.b = *b, .program = w, .choice = choice, .looks = way & LOOKS,
                         .paired = way & PAIRED, .narrow = narrow,
                         .half = w->half && !has_calls(w)};
        good = write_code(c);
        if (good || !way) break;
    }
    *b = c->b;
    free(c);
    return good;
}
