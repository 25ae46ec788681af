// SPDX-License-Identifier: Apache-2.0
//
// The loops of a vector program as machine code, and where its steps have their elements:
//
//     for each stick: for each row: the steps         x and y in registers
//     for each row: for each stick: the steps         where sums are all that leaves the program
#include "card/codegen/unit_code.h"

#include <stdlib.h>
#include <string.h>

// --- Quarters

static void share_all(unit_code *c, quarters *to, const quarters *from)
{
    for (uint32_t q = 0; q < QUARTERS; q++) code_set(c, to, q, code_share(c, from->reg[q]));
}

static operand quarter_at(gpr base, int32_t offset, uint32_t quarter)
{
    return at_offset(base, offset + (int32_t)quarter * QUARTER_BYTES);
}

static void load_quarters(unit_code *c, quarters *to, gpr base, int32_t offset)
{
    code_release_all(c, to);
    for (uint32_t q = 0; q < QUARTERS; q++) {
        const zmm reg = code_new(c);
        code_load(c, reg, quarter_at(base, offset, q));
        code_set(c, to, q, reg);
    }
}

static void store_quarters(unit_code *c, const quarters *from, gpr base, int32_t offset)
{
    for (uint32_t q = 0; q < QUARTERS; q++)
        code_store(c, quarter_at(base, offset, q), from->reg[q]);
}

static void load_values(unit_code *c, quarters *to, gpr offset)
{
    code_values(c, offset);
    load_quarters(c, to, RAX, 0);
}

static void repeat_row(unit_code *c, quarters *to)
{
    encode_load(&c->b, RAX, CODE_FIELD(values));
    code_release_all(c, to);
    const zmm value = code_new(c);
    code_op(c, VBROADCASTSS, value, 0, at_index(RAX, ROW, 4, 0));
    code_set_all(c, to, value);
}

static void zero(unit_code *c, quarters *to)
{
    code_release_all(c, to);
    const zmm value = code_new(c);
    code_op(c, VPXORD, value, value, in_zmm(value));
    code_set_all(c, to, value);
}

// --- Sums of rows

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
static uint32_t pairs_taken(const vector_program *w)
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
    for (uint32_t q = 0; q < QUARTERS; q++) {
        const uint32_t lanes = c->step->rest_of_each ? lanes_of(q, c->step->rest) : 0;
        if (lanes == 0xFFFF || is_all_padding(c->step, q)) {
            of.reg[q] = code_share(c, c->x.reg[q]);
            continue;
        }
        of.reg[q] = code_new(c);
        mask_padding(c, q);
        code_masked(c, VBLENDMPS, of.reg[q], 1, neutral, in_zmm(c->x.reg[q]));
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
    for (uint32_t q = 0; q < QUARTERS; q++)
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
        code_load(c, sums.reg[n], quarter_at(RAX, 0, n));
    }
    add_up(c, &sums, x);
    for (uint32_t n = 0; n < registers_of(c->step); n++) {
        code_store(c, quarter_at(RAX, 0, n), sums.reg[n]);
        code_release(c, sums.reg[n]);
    }
}

static void sum(unit_code *c)
{
    const quarters *held = sums_in_registers(c);
    const quarters x = c->step->rest ? without_padding(c) : c->x;
    if (held) add_up(c, held, &x);
    else add_up_in_memory(c, &x);
    for (uint32_t q = 0; c->step->rest && q < QUARTERS; q++) code_release(c, x.reg[q]);
}

static void load_sums(unit_code *c)
{
    for (uint32_t n = 0; n < 2 && c->summing[n]; n++) {
        c->step = c->summing[n];
        code_values(c, ROW_BYTES);
        for (uint32_t r = 0; r < registers_of(c->step); r++)
            code_load(c, c->sums[n].reg[r], quarter_at(RAX, 0, r));
    }
}

static void store_sums(unit_code *c)
{
    for (uint32_t n = 0; n < 2 && c->summing[n]; n++) {
        c->step = c->summing[n];
        code_values(c, ROW_BYTES);
        for (uint32_t r = 0; r < registers_of(c->step); r++)
            code_store(c, quarter_at(RAX, 0, r), c->sums[n].reg[r]);
    }
}

static bool loads_elements(uint32_t op)
{
    return op == VECTOR_LOAD_X || op == VECTOR_WIDE_X || op == VECTOR_LOAD_Y ||
           op == VECTOR_WIDE_Y;
}

// Sums stay in registers where a program stores nothing: no reader then depends on the order of
// its units. Of several streams, or of one larger than the host's caches, sticks of a row are too
// much for the sets of these: they often lie a multiple of their size apart.
static void choose_loops(unit_code *c)
{
    uint32_t sums = 0, streams = 0;
    c->by_rows = true;
    for (uint32_t n = 0; n < c->program->count; n++) {
        const vector_step *s = &c->program->steps[n];
        if (s->op >= VECTOR_STORE && s->op <= VECTOR_STORE_LOOK_UP) c->by_rows = false;
        if (loads_elements(s->op)) streams += s->streams ? 2 : 1;
        if (!vector_sums(s->op)) continue;
        if (sums == 2) c->by_rows = false;
        else c->summing[sums++] = s;
    }
    if (!sums || streams > 1) c->by_rows = false;
    for (uint32_t n = 0; c->by_rows && n < sums; n++)
        for (uint32_t r = 0; r < registers_of(c->summing[n]); r++)
            c->sums[n].reg[r] = code_new(c);
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
    for (uint32_t q = 0; c->slot[slot].held && q < QUARTERS; q++)
        code_release(c, c->slot[slot].at.reg[q]);
    c->slot[slot].held = false;
}

static void hold(unit_code *c, uint32_t slot, const quarters *from)
{
    drop_slot(c, slot);
    c->slot[slot].held = is_taken_later(c, slot);
    for (uint32_t q = 0; c->slot[slot].held && q < QUARTERS; q++)
        c->slot[slot].at.reg[q] = code_share(c, from->reg[q]);
}

static void take_held(unit_code *c, uint32_t slot, quarters *to)
{
    if (c->slot[slot].held) share_all(c, to, &c->slot[slot].at);
    else load_quarters(c, to, SLOTS, (int32_t)(slot * UNIT_BYTES));
}

static void take_slot(unit_code *c, uint32_t op)
{
    const uint32_t slot = (op - VECTOR_HELD) / 4;
    if (op == VECTOR_HOLD_X(slot)) hold(c, slot, &c->x);
    else if (op == VECTOR_HOLD_Y(slot)) hold(c, slot, &c->y);
    else take_held(c, slot, op == VECTOR_HELD_X(slot) ? &c->x : &c->y);
}

// A slot whose value no step behind this one takes has no registers any more.
static void drop_slots(unit_code *c)
{
    for (uint32_t slot = 0; slot < VECTOR_SLOTS; slot++)
        if (c->slot[slot].held && !is_taken_later(c, slot)) drop_slot(c, slot);
}

static void keep(unit_code *c, const quarters *from)
{
    code_values(c, KEPT_BYTES);
    store_quarters(c, from, RAX, 0);
}

static void in_fp32(unit_code *c, avx512 op)
{
    for (uint32_t q = 0; q < QUARTERS; q++) {
        const zmm to = code_new(c);
        code_op(c, op, to, c->x.reg[q], in_zmm(c->y.reg[q]));
        code_set(c, &c->x, q, to);
    }
}

static void take_step(unit_code *c)
{
    const uint32_t op = c->step->op;
    switch (op) {
    case VECTOR_LOAD_X: code_load_elements(c, &c->x); break;
    case VECTOR_LOAD_Y: code_load_elements(c, &c->y); break;
    case VECTOR_WIDE_X: code_load_wide(c, &c->x); break;
    case VECTOR_WIDE_Y: code_load_wide(c, &c->y); break;
    case VECTOR_KEPT_X: load_values(c, &c->x, KEPT_BYTES); break;
    case VECTOR_KEPT_Y: load_values(c, &c->y, KEPT_BYTES); break;
    case VECTOR_LINE_Y: load_values(c, &c->y, STICK_BYTES); break;
    case VECTOR_ROWS_X: repeat_row(c, &c->x); break;
    case VECTOR_ROWS_Y: repeat_row(c, &c->y); break;
    case VECTOR_SPREAD_X: code_spread(c, &c->x); break;
    case VECTOR_SPREAD_Y: code_spread(c, &c->y); break;
    case VECTOR_X_TO_Y: share_all(c, &c->y, &c->x); break;
    case VECTOR_ZERO_Y: zero(c, &c->y); break;
    case VECTOR_SUB_F32: in_fp32(c, VSUBPS); break;
    case VECTOR_MUL_F32: in_fp32(c, VMULPS); break;
    case VECTOR_ADD_F32: in_fp32(c, VADDPS); break;
    case VECTOR_EXP: code_exp(c); break;
    case VECTOR_LOOK_UP: code_look_up(c); break;
    case VECTOR_STORE: code_store_elements(c); break;
    case VECTOR_STORE_WIDE: code_store_wide(c); break;
    case VECTOR_STORE_LOOK_UP: code_store_look_up(c); break;
    case VECTOR_KEEP: keep(c, &c->x); break;
    case VECTOR_KEEP_Y: keep(c, &c->y); break;
    default:
        if (vector_sums(op)) sum(c);
        else if (op >= VECTOR_HELD) take_slot(c, op);
        else if (vector_is_formula(op)) code_formula(c);
        else code_opfunc(c, op);
        break;
    }
    if (!vector_is_formula(op)) code_round(c);
}

static void take_all_steps(unit_code *c)
{
    zero(c, &c->x);
    share_all(c, &c->y, &c->x);
    for (uint32_t n = 0; n < c->program->count; n++) {
        c->step = &c->program->steps[n];
        take_step(c);
        drop_slots(c);
    }
}

// A unit. Where it depends on its elements whether values need a look at their range, the code for
// those that do stands behind everything else.
static void take_steps(unit_code *c)
{
    c->is_plain = c->looks;
    code_go_further(c);
    if (c->looks) code_check_plain(c);
    take_all_steps(c);
    c->next = c->b.size;
}

static void take_wild_steps(unit_code *c)
{
    if (!c->looks) return;
    c->is_plain = false;
    set_jump(&c->b, c->wild, c->b.size);
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
    encode_add_number(&c->b, ROW_BYTES, UNIT_BYTES);
    encode_add_number(&c->b, KEPT_BYTES, UNIT_BYTES);
    end_loop(c, ROW, ROWS, row);
    encode_add_number(&c->b, STICK_BYTES, UNIT_BYTES);
    end_loop(c, STICK, STICKS, stick);
}

static void row_by_row(unit_code *c)
{
    encode_load(&c->b, RSI, at_offset(RDI, offsetof(vector_program, rows_ahead)));
    encode_save(&c->b, AHEAD, RSI);
    clear(c, ROW_BYTES);
    const size_t row = begin_loop(c, ROW);
    encode_load(&c->b, NEXT, AHEAD);
    encode_add(&c->b, NEXT, ROW);
    code_find_elements(c);
    load_sums(c);
    encode_move(&c->b, KEPT_BYTES, ROW_BYTES);
    clear(c, STICK_BYTES);
    const size_t stick = begin_loop(c, STICK);
    take_steps(c);
    encode_move(&c->b, RAX, ROWS);
    encode_shift_left(&c->b, RAX, 8);
    encode_add(&c->b, KEPT_BYTES, RAX);
    encode_add_number(&c->b, STICK_BYTES, UNIT_BYTES);
    end_loop(c, STICK, STICKS, stick);
    store_sums(c);
    encode_add_number(&c->b, ROW_BYTES, UNIT_BYTES);
    end_loop(c, ROW, ROWS, row);
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

static bool write_code(unit_code *c)
{
    // x and y are somewhere from the beginning.
    c->users[0] = 2 * QUARTERS;
    enter(c);
    code_load_constants(c);
    c->pairs = pairs_taken(c->program);
    choose_loops(c);
    if (c->by_rows) row_by_row(c);
    else stick_by_stick(c);
    leave(c);
    take_wild_steps(c);
    code_cold(c);
    for (uint32_t unused = 1; c->b.constants < CODE_CONSTANT_REGISTERS; unused++)
        constant_of(&c->b, unused);
    finish_code(&c->b);
    return !c->fails && !c->b.overflows;
}

bool write_vector_code(code_buffer *b, const vector_program *w)
{
    _Static_assert(sizeof(size_t) == 8, "machine code of x86-64");
    unit_code *c = calloc(1, sizeof *c);
    if (!c) return false;
    *c = (unit_code){.b = *b, .program = w};
    c->looks = choose_plain(w, &c->choice);
    bool good = write_code(c);
    if (!good && c->looks) {                // twice the steps may be too much
        const plain_choice choice = c->choice;
        *c = (unit_code){.b = *b, .program = w, .choice = choice};
        good = write_code(c);
    }
    *b = c->b;
    free(c);
    return good;
}
