// SPDX-License-Identifier: Apache-2.0
//
// From tiles to items. Streams and reductions continue the vector program that is open, with the
// FILL before and the FOLD behind a reduction; any other per-row value ends the vector program.
// What a stream reads is found in register x, among the values that are kept, or in memory. Steps
// that keep and store are noted for every value and dropped at the end where the value has no
// reader.
#include <string.h>

#include "card/row_fusion/conditions/dependences.h"
#include "card/row_fusion/fusible_ops.h"
#include "card/row_fusion/program/program_builder.h"
#include "card/simd/lanes.h"

// --- Steps

static spyre_status add_step(rows_builder *b, rows_step step)
{
    if (b->c->steps.count + 1 >= ROWS_MOST_STEPS) {
        b->fits = false;
        return NULL;
    }
    if (!b->open) {
        rows_item item = {.first = b->c->steps.count};
        TRY(VEC_PUSH(b->scratch, &b->c->items, item));
        b->open = true;
        b->in_x = ROWS_NONE;
    }
    b->c->items.items[b->c->items.count - 1].count++;
    return VEC_PUSH(b->scratch, &b->c->steps, step);
}

// The value of a place, which `op` keeps.
static spyre_status new_value(rows_builder *b, const rows_place *place, bool stored, vector_op op,
                              uint32_t *out_id)
{
    *out_id = ROWS_NONE;
    if (b->value_count == ROWS_MOST_STEPS) {
        b->fits = false;
        return NULL;
    }
    for (uint32_t n = 0; n < b->value_count; n++) {
        rows_value *old = &b->values[n];
        if (!old->current || !rows_same_place(b->first, &old->place, place)) continue;
        old->current = false;
        old->overwritten = stored;
    }
    uint32_t id = b->value_count++;
    uint32_t made = b->c->steps.count;
    b->values[id] = (rows_value){.place = *place, .made = made, .stored = stored, .current = true};
    *out_id = id;
    return add_step(b, (rows_step){.op = op, .value = id});
}

static bool is_wide(const rows_place *place)
{
    return place->format == SPYRE_FORMAT_IEEE_FP32;
}

// What is in x now, with the steps that keep and store it.
static spyre_status name_value(rows_builder *b, const rows_place *place, bool stored)
{
    uint32_t id;
    vector_op op = is_wide(place) ? VECTOR_STORE_WIDE : VECTOR_STORE;
    TRY(new_value(b, place, stored, VECTOR_KEEP, &id));
    if (stored) TRY(add_step(b, (rows_step){.op = op, .place = *place, .value = id}));
    b->in_x = id;
    return NULL;
}

static uint32_t find_value(const rows_builder *b, const rows_place *place)
{
    for (uint32_t n = 0; n < b->value_count; n++)
        if (b->values[n].current && rows_same_place(b->first, &b->values[n].place, place))
            return n;
    return ROWS_NONE;
}

static spyre_status take_kept(rows_builder *b, rows_step step)
{
    b->values[step.value].kept = true;
    b->values[step.value].last = b->c->steps.count;
    return add_step(b, step);
}

// Per-row operands have one element per row, other operands without lanes one per stick.
static bool is_by_row(const rows_access *a)
{
    return a->lane == 0 && nested_strides_stands(&a->place.stick);
}

// What a FILL of the kernel says, which is no tile of the row fusion.
static spyre_status add_filled(rows_builder *b, vector_op op, const rows_access *a, bool inverse)
{
    return add_step(b, (rows_step){.op = op, .place = a->place, .value = ROWS_NONE,
                                    .inverse = inverse, .filled = true, .begin = a->value});
}

static spyre_status load(rows_builder *b, const rows_access *a)
{
    const rows_place *place = &a->place;
    uint32_t id = find_value(b, place);
    vector_op op = is_by_row(a)     ? VECTOR_ROWS_X
                   : a->lane == 0   ? VECTOR_SPREAD_X
                   : is_wide(place) ? VECTOR_WIDE_X
                                    : VECTOR_LOAD_X;
    // A vector program that begins here has nothing in x yet.
    if (!b->open) b->in_x = ROWS_NONE;
    if (a->constant) {
        TRY(add_filled(b, VECTOR_ROWS_X, a, false));
        b->in_x = ROWS_NONE;
        return NULL;
    }
    if (id != ROWS_NONE && id == b->in_x) return NULL;
    if (id != ROWS_NONE) {
        TRY(take_kept(b, (rows_step){.op = VECTOR_KEPT_X, .value = id}));
        b->in_x = id;
        return NULL;
    }
    TRY(add_step(b, (rows_step){.op = op, .place = *place, .value = ROWS_NONE}));
    b->in_x = ROWS_NONE;
    bool once = a->lane == 0 || nested_strides_stands(&place->row);
    return once ? NULL : name_value(b, place, false);
}

static spyre_status with(rows_builder *b, const rows_access *a, bool inverse)
{
    if (a->constant) return add_filled(b, VECTOR_ROWS_Y, a, inverse);
    if (a->lane == 0) {
        vector_op once = is_by_row(a) ? VECTOR_ROWS_Y : VECTOR_SPREAD_Y;
        return add_step(b, (rows_step){.op = once, .place = a->place, .inverse = inverse,
                                       .value = ROWS_NONE});
    }
    uint32_t id = find_value(b, &a->place);
    if (id != ROWS_NONE && b->open && id == b->in_x)
        return add_step(b, (rows_step){.op = VECTOR_X_TO_Y, .value = ROWS_NONE});
    if (id != ROWS_NONE) return take_kept(b, (rows_step){.op = VECTOR_KEPT_Y, .value = id});
    vector_op op = nested_strides_stands(&a->place.row) ? VECTOR_LINE_Y
                   : is_wide(&a->place)                 ? VECTOR_WIDE_Y
                                                        : VECTOR_LOAD_Y;
    TRY(add_step(b, (rows_step){.op = op, .place = a->place, .value = ROWS_NONE}));
    return op == VECTOR_LINE_Y ? NULL : new_value(b, &a->place, false, VECTOR_KEEP_Y, &id);
}

// --- Opfuncs

// x = op(x, y), rounded to the format of the tile's result. Exact are functions of SEN169_FP16 that
// make no values but those.
static rows_step apply(const isa_instruction *i, opfunc op)
{
    const bool dl16 = rows_all_dl16(i);
    bool rounds = i->operand[0].format == SPYRE_FORMAT_SEN169_FP16 && !(dl16 && lanes_selects(op));
    const bool native = op != i->op || rows_is_native(i);
    const uint32_t kind = !native ? VECTOR_FORMULA : dl16 ? VECTOR_APPLY : VECTOR_APPLY_F32;
    rows_step step = {.op = kind + op,
                      .value = ROWS_NONE,
                      .rounding = rounds ? VECTOR_ROUND : VECTOR_AS_IS};
    memcpy(step.constant, i->constant, sizeof step.constant);
    return step;
}

// ((x - mean) * scale) * weight + bias, each step in fp32. Without weight nothing is multiplied,
// without bias zero is added, which makes a negative zero positive.
static spyre_status add_norm(rows_builder *b, const rows_tile *t)
{
    static const uint32_t ops[] = {VECTOR_SUB_F32, VECTOR_MUL_F32, VECTOR_MUL_F32};
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t o = 2; o < i->operand_count && o < 5; o++) {
        TRY(with(b, &t->operand[o], false));
        b->in_x = ROWS_NONE;
        TRY(add_step(b, (rows_step){.op = ops[o - 2], .value = ROWS_NONE}));
    }
    if (i->operand_count == 6) TRY(with(b, &t->operand[5], false));
    else TRY(add_step(b, (rows_step){.op = VECTOR_ZERO_Y, .value = ROWS_NONE}));
    return add_step(b, apply(i, OPFUNC_ADD));
}

static spyre_status add_unary(rows_builder *b, const isa_instruction *i)
{
    const opfunc op = rows_opfunc_of(i);
    // What goes to a wider format, or is copied, stays as it is.
    const spyre_format from = i->operand[1].format;
    bool same = i->operand[0].format == from || from == SPYRE_FORMAT_SEN169_FP16;
    if (op == OPFUNC_IDENTITY && same) return NULL;
    if (!rows_is_looked_up(i)) return add_step(b, apply(i, op));
    rows_step step = {.op = VECTOR_EXP, .value = ROWS_NONE};
    bool has = i->op == OPFUNC_EXP && simd_in_use()->has_exp;
    // To look up what is in memory takes no registers.
    bool loaded = b->in_x == ROWS_NONE || !b->values[b->in_x].stored;
    if (has) return add_step(b, step);
    if (loaded) b->fits = false;
    step.op = VECTOR_LOOK_UP;
    step.table = opfunc_dl16_table_of(i->op, i->constant);
    TRY_ALLOC(step.table);
    return add_step(b, step);
}

// One input in x, the other in y.
static spyre_status load_both(rows_builder *b, const rows_access *one, const rows_access *two,
                              bool inverse)
{
    uint32_t second = two->lane ? find_value(b, &two->place) : ROWS_NONE;
    // y takes what is in x before x takes something else.
    bool early = b->open && second != ROWS_NONE && second == b->in_x;
    if (early) TRY(with(b, two, false));
    TRY(load(b, one));
    return early ? NULL : with(b, two, inverse);
}

// A division by one element a row is a multiplication, as in simd_body.h.
static spyre_status add_binary(rows_builder *b, const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    bool inverse = i->op == OPFUNC_REALDIV && is_by_row(&t->operand[2]) && rows_all_dl16(i);
    TRY(load_both(b, &t->operand[1], &t->operand[2], inverse));
    return add_step(b, apply(i, inverse ? OPFUNC_MUL : i->op));
}

// A value without a place, for this program alone.
static spyre_status keep_apart(rows_builder *b, const rows_access *a, uint32_t *out_id)
{
    TRY(load(b, a));
    *out_id = b->value_count;
    if (b->value_count == ROWS_MOST_STEPS) {
        b->fits = false;
        return NULL;
    }
    b->values[b->value_count++] = (rows_value){.made = b->c->steps.count};
    return add_step(b, (rows_step){.op = VECTOR_KEEP, .value = *out_id});
}

// True for a value of the vector program that is open.
static bool is_made_here(const rows_builder *b, uint32_t id)
{
    return b->open && id != ROWS_NONE &&
           b->values[id].made >= b->c->items.items[b->c->items.count - 1].first;
}

// The first input is one of the values that are kept while the others come to x and y.
static spyre_status add_ternary(rows_builder *b, const rows_tile *t)
{
    rows_step step = apply(t->tile->instruction, t->tile->instruction->op);
    step.value = t->operand[1].constant ? ROWS_NONE : find_value(b, &t->operand[1].place);
    if (!is_made_here(b, step.value)) TRY(keep_apart(b, &t->operand[1], &step.value));
    if (!b->fits) return NULL;
    TRY(load_both(b, &t->operand[2], &t->operand[3], false));
    return take_kept(b, step);
}

static spyre_status add_stream(rows_builder *b, const rows_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    if (i->op == OPFUNC_LAYERNORMNORM) {
        TRY(load(b, &t->operand[1]));
        TRY(add_norm(b, t));
    } else if (i->operand_count == 4) {
        TRY(add_ternary(b, t));
    } else if (i->operand_count == 3) {
        TRY(add_binary(b, t));
    } else {
        TRY(load(b, &t->operand[1]));
        TRY(add_unary(b, i));
    }
    return name_value(b, &t->operand[0].place, true);
}

// --- Sums

static spyre_status add_reduction(rows_builder *b, const rows_tile *t)
{
    uint32_t area = t->operand[0].sums;
    const isa_instruction *begun = b->begun[area];
    const simd_sum sum = plan_sum_of(t->tile->instruction);
    const bool wide = t->lanes == SIMD_LANES / 2;
    // Two reductions to the same sums: rare.
    b->fits = begun && sum != SIMD_SUMS;
    if (!b->fits) return NULL;
    // Of fp32 in sums of 64 lanes: both runs of a stick, each element on its own.
    if (!wide && is_wide(&t->operand[1].place) && sum != SIMD_SUM) b->fits = false;
    TRY(load(b, &t->operand[1]));
    b->begun[area] = NULL;
    return add_step(b, (rows_step){.op = (wide ? VECTOR_WIDE_SUM : VECTOR_SUM) + sum, .area = area,
                                    .begins = true, .begin = begun->constant[0],
                                    .rest = t->rest, .rest_of_each = t->rest_of_each,
                                    .value = ROWS_NONE});
}

// Of the vector program that is open.
static rows_step *step_that_sums(rows_builder *b, uint32_t area)
{
    if (!b->open) return NULL;
    const rows_item *program = &b->c->items.items[b->c->items.count - 1];
    for (uint32_t n = program->first; n < program->first + program->count; n++) {
        rows_step *s = &b->c->steps.items[n];
        if (vector_sums(s->op) && s->area == area) return s;
    }
    return NULL;
}

// The vector program that has summed folds at its end.
static void add_fold(rows_builder *b, const rows_tile *t)
{
    uint32_t area = t->operand[0].sums;
    rows_step *sum = b->begun[area] ? NULL : step_that_sums(b, area);
    const simd_sum folded = plan_sum_of(t->tile->instruction);
    const simd_sum summed = sum ? vector_sum_of(sum->op) : SIMD_SUMS;
    b->fits = sum && (summed == folded || (summed == SIMD_SQUARES && folded == SIMD_SUM));
    if (b->fits) sum->folds = b->folded[area] = true;
}

static void begin_sums(rows_builder *b, const rows_tile *t)
{
    if (t->role == ROWS_CONSTANT) return;
    uint32_t area = t->operand[0].sums;
    // The vector program's own sums are not at their end yet.
    if (step_that_sums(b, area)) b->open = false;
    b->begun[area] = t->tile->instruction;
    b->folded[area] = false;
}

// --- Tiles

static spyre_status add_tile(rows_builder *b, const rows_tile *t)
{
    rows_item item = {.made_of = t, .operands = t->tile->instruction->operand_count,
                      .lanes = t->lanes};
    TRY_NEW(b->memory, item.operand, item.operands);
    for (uint32_t o = 0; o < item.operands; o++) {
        const rows_access *a = &t->operand[o];
        item.operand[o] = (rows_operand){.place = a->place, .sums = a->sums,
                                          .constant = a->constant, .value = a->value};
        if (a->sums == ROWS_NONE) continue;
        const bool first = a->place.offset == 0 && a->lane == 0 && b->folded[a->sums];
        const bool all = a->lane != 0 && t->lanes == SIMD_LANES && !b->folded[a->sums];
        b->fits = b->fits && (first || all) && !b->begun[a->sums];
        if (first) item.operand[o].place.row = nested_strides_even(t->rows, sizeof(float));
    }
    b->open = false;
    return VEC_PUSH(b->scratch, &b->c->items, item);
}

spyre_status rows_compose_program(rows_builder *b)
{
    b->in_x = ROWS_NONE;
    b->fits = true;
    for (uint32_t n = 0; n < b->tiles->count && b->fits; n++) {
        const rows_tile *t = &b->tiles->items[n];
        if (t->role == ROWS_STREAMS) TRY(add_stream(b, t));
        else if (t->role == ROWS_REDUCES) TRY(add_reduction(b, t));
        else if (t->tile->instruction->opcode == ISA_FILL) begin_sums(b, t);
        else if (t->tile->instruction->opcode == ISA_FOLD) add_fold(b, t);
        else TRY(add_tile(b, t));
    }
    return NULL;
}
