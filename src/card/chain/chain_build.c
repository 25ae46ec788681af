// SPDX-License-Identifier: Apache-2.0
//
// From tiles to items. Streams and reductions join the walk that is open, with the FILL before and
// the FOLD behind a reduction; whatever else there is one of a row ends the walk. What a stream
// reads is found in x, among what is kept, or in memory. Steps that keep and store are noted for
// every value and dropped at the end where the value has no reader.
#include "card/chain/chain_build.h"

#include "card/strip/lanes.h"

// --- Steps

static spyre_status add_step(chain_builder *b, chain_step step)
{
    if (b->c->steps.count + 1 >= CHAIN_MOST_STEPS) {
        b->fits = false;
        return NULL;
    }
    if (!b->open) {
        chain_item item = {.first = b->c->steps.count};
        TRY(VEC_PUSH(b->memory, &b->c->items, item));
        b->open = true;
        b->in_x = CHAIN_NONE;
    }
    b->c->items.items[b->c->items.count - 1].count++;
    return VEC_PUSH(b->memory, &b->c->steps, step);
}

// What is in x now, with the steps that keep and store it.
static spyre_status name_value(chain_builder *b, const chain_place *place, bool stored)
{
    if (b->value_count == CHAIN_MOST_STEPS) {
        b->fits = false;
        return NULL;
    }
    for (uint32_t n = 0; n < b->value_count; n++) {
        chain_value *old = &b->values[n];
        if (!old->current || !chain_same_place(b->first, &old->place, place)) continue;
        old->current = false;
        old->overwritten = stored;
    }
    uint32_t id = b->value_count++;
    uint32_t made = b->c->steps.count;
    b->values[id] = (chain_value){.place = *place, .made = made, .stored = stored, .current = true};
    TRY(add_step(b, (chain_step){.verb = WALK_KEEP, .value = id}));
    if (stored) TRY(add_step(b, (chain_step){.verb = WALK_STORE, .place = *place, .value = id}));
    b->in_x = id;
    return NULL;
}

static uint32_t find_value(const chain_builder *b, const chain_place *place)
{
    for (uint32_t n = 0; n < b->value_count; n++)
        if (b->values[n].current && chain_same_place(b->first, &b->values[n].place, place))
            return n;
    return CHAIN_NONE;
}

static spyre_status take_kept(chain_builder *b, uint32_t id, walk_verb verb)
{
    b->values[id].kept = true;
    b->values[id].last = b->c->steps.count;
    return add_step(b, (chain_step){.verb = verb, .value = id});
}

static spyre_status load(chain_builder *b, const chain_place *place)
{
    uint32_t id = find_value(b, place);
    // A walk that begins here has nothing in x yet.
    if (!b->open) b->in_x = CHAIN_NONE;
    if (id != CHAIN_NONE && id == b->in_x) return NULL;
    if (id != CHAIN_NONE) {
        TRY(take_kept(b, id, WALK_LOAD_KEPT));
        b->in_x = id;
        return NULL;
    }
    TRY(add_step(b, (chain_step){.verb = WALK_LOAD, .place = *place, .value = CHAIN_NONE}));
    b->in_x = CHAIN_NONE;
    return place->row == 0 ? NULL : name_value(b, place, false);
}

static spyre_status with(chain_builder *b, const chain_access *a, bool inverse)
{
    if (a->lane == 0) {
        return add_step(b, (chain_step){.verb = WALK_WITH_ROWS, .place = a->place,
                                        .inverse = inverse, .value = CHAIN_NONE});
    }
    uint32_t id = find_value(b, &a->place);
    if (id != CHAIN_NONE && b->open && id == b->in_x)
        return add_step(b, (chain_step){.verb = WALK_WITH_SAME, .value = CHAIN_NONE});
    if (id != CHAIN_NONE) return take_kept(b, id, WALK_WITH_KEPT);
    walk_verb verb = a->place.row ? WALK_WITH : WALK_WITH_LINE;
    return add_step(b, (chain_step){.verb = verb, .place = a->place, .value = CHAIN_NONE});
}

// --- Opfuncs

static bool is_looked_up(const isa_instruction *i)
{
    const spyre_format formats[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SEN169_FP16};
    return opfunc_has_table(i->op) && !lanes_f32_suffices(i->op, formats[0], formats, 1) &&
           opfunc_dl16_table_of(i->op, i->constant);
}

// A load that fusing has left is a copy, too.
static opfunc opfunc_of(const isa_instruction *i)
{
    bool copies = i->opcode == ISA_LOAD || opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY;
    return copies ? OPFUNC_IDENTITY : i->op;
}

bool chain_streams(const isa_instruction *i)
{
    const spyre_format formats[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_SEN169_FP16};
    if (i->opcode == ISA_LOAD) return true;
    if (i->opcode != ISA_VECTOR) return false;
    if (i->op == OPFUNC_LAYERNORMNORM || is_looked_up(i)) return true;
    opfunc op = opfunc_of(i);
    return walk_applies(op, i->operand_count - 1u) &&
           lanes_f32_suffices(op, formats[0], formats, i->operand_count - 1u);
}

static bool is_exact(opfunc op)
{
    return op == OPFUNC_MAXIMUM || op == OPFUNC_MINIMUM || op == OPFUNC_ABS || op == OPFUNC_NEG ||
           op == OPFUNC_RELUFWD || op == OPFUNC_IDENTITY ||
           (op >= OPFUNC_EQUAL && op <= OPFUNC_GREATEREQUAL);
}

// ((x - mean) * scale) * weight + bias, each step in fp32. Without weight nothing is multiplied,
// without bias zero is added, which makes a negative zero positive.
static spyre_status add_norm(chain_builder *b, const chain_tile *t)
{
    static const uint32_t verbs[] = {WALK_DIFFERENCE, WALK_PRODUCT, WALK_PRODUCT};
    const isa_instruction *i = t->tile->instruction;
    for (uint32_t o = 2; o < i->operand_count && o < 5; o++) {
        TRY(with(b, &t->operand[o], false));
        b->in_x = CHAIN_NONE;
        TRY(add_step(b, (chain_step){.verb = verbs[o - 2], .value = CHAIN_NONE}));
    }
    if (i->operand_count == 6) TRY(with(b, &t->operand[5], false));
    else TRY(add_step(b, (chain_step){.verb = WALK_WITH_ZERO, .value = CHAIN_NONE}));
    return add_step(b, (chain_step){.verb = WALK_APPLY + OPFUNC_ADD, .constant = i->constant,
                                    .value = b->value_count, .rounding = WALK_ROUND});
}

static spyre_status add_unary(chain_builder *b, const isa_instruction *i)
{
    if (opfunc_of(i) == OPFUNC_IDENTITY) return NULL;
    chain_step step = {.verb = WALK_APPLY + opfunc_of(i), .constant = i->constant,
                       .value = b->value_count, .rounding = WALK_ROUND};
    if (is_looked_up(i)) {
        bool has = i->op == OPFUNC_EXP && strip_in_use()->has_exp;
        // To look up what is in memory takes no registers.
        bool loaded = b->in_x == CHAIN_NONE || !b->values[b->in_x].stored;
        if (!has && loaded) b->fits = false;
        step.verb = has ? WALK_EXP : WALK_LOOK_UP;
        step.table = opfunc_dl16_table_of(i->op, i->constant);
        TRY_ALLOC(step.table);
        step.rounding = WALK_AS_IS;
    }
    if (is_exact(opfunc_of(i))) step.rounding = WALK_AS_IS;
    return add_step(b, step);
}

// A division by one element a row is a multiplication, as in strip_body.h.
static spyre_status add_binary(chain_builder *b, const chain_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    const chain_access *one = &t->operand[1], *two = &t->operand[2];
    bool inverse = i->op == OPFUNC_REALDIV && two->lane == 0;
    uint32_t second = two->lane ? find_value(b, &two->place) : CHAIN_NONE;
    // y takes what is in x before x takes something else.
    bool early = b->open && second != CHAIN_NONE && second == b->in_x;
    if (early) TRY(with(b, two, false));
    TRY(load(b, &one->place));
    if (!early) TRY(with(b, two, inverse));
    opfunc op = inverse ? OPFUNC_MUL : i->op;
    return add_step(b, (chain_step){.verb = WALK_APPLY + op, .constant = i->constant,
                                    .value = b->value_count,
                                    .rounding = is_exact(op) ? WALK_AS_IS : WALK_ROUND});
}

static spyre_status add_stream(chain_builder *b, const chain_tile *t)
{
    const isa_instruction *i = t->tile->instruction;
    // One element a row for a whole result: rare.
    if (t->operand[1].lane == 0) {
        b->fits = false;
        return NULL;
    }
    if (i->op != OPFUNC_LAYERNORMNORM && i->operand_count == 3) {
        TRY(add_binary(b, t));
    } else {
        TRY(load(b, &t->operand[1].place));
        if (i->op == OPFUNC_LAYERNORMNORM) TRY(add_norm(b, t));
        else TRY(add_unary(b, i));
    }
    return name_value(b, &t->operand[0].place, true);
}

// --- Sums

static walk_verb sum_of(const isa_instruction *i)
{
    if (i->opcode == ISA_REDUCESQ) return WALK_SQUARES;
    return i->op == OPFUNC_MAX ? WALK_MOST : i->op == OPFUNC_MIN ? WALK_LEAST : WALK_SUM;
}

static spyre_status add_reduction(chain_builder *b, const chain_tile *t)
{
    uint32_t area = t->operand[0].sums;
    const isa_instruction *begun = b->begun[area];
    // Two reductions to the same sums: rare.
    if (!begun) b->fits = false;
    if (!b->fits) return NULL;
    TRY(load(b, &t->operand[1].place));
    b->begun[area] = NULL;
    return add_step(b, (chain_step){.verb = sum_of(t->tile->instruction), .area = area,
                                    .begins = true, .begin = begun->constant[0],
                                    .value = CHAIN_NONE});
}

// Of the walk that is open.
static chain_step *step_that_sums(chain_builder *b, uint32_t area)
{
    if (!b->open) return NULL;
    const chain_item *walk = &b->c->items.items[b->c->items.count - 1];
    for (uint32_t n = walk->first; n < walk->first + walk->count; n++) {
        chain_step *s = &b->c->steps.items[n];
        if (s->verb >= WALK_SUM && s->verb <= WALK_LEAST && s->area == area) return s;
    }
    return NULL;
}

// The walk that has summed folds at its end.
static void add_fold(chain_builder *b, const chain_tile *t)
{
    uint32_t area = t->operand[0].sums;
    chain_step *sum = b->begun[area] ? NULL : step_that_sums(b, area);
    walk_verb verb = sum_of(t->tile->instruction);
    b->fits = sum && (sum->verb == verb || (sum->verb == WALK_SQUARES && verb == WALK_SUM));
    if (b->fits) sum->folds = b->folded[area] = true;
}

static void begin_sums(chain_builder *b, const chain_tile *t)
{
    if (t->role == CHAIN_CONSTANT) return;
    uint32_t area = t->operand[0].sums;
    // The walk's own sums are not at their end yet.
    if (step_that_sums(b, area)) b->open = false;
    b->begun[area] = t->tile->instruction;
    b->folded[area] = false;
}

// --- Tiles

static spyre_status add_tile(chain_builder *b, const chain_tile *t)
{
    chain_item item = {.made_of = t};
    for (uint32_t o = 0; o < t->tile->instruction->operand_count; o++) {
        const chain_access *a = &t->operand[o];
        item.operand[o] = (chain_operand){.place = a->place, .sums = a->sums,
                                          .constant = a->constant, .value = a->value};
        if (a->sums == CHAIN_NONE) continue;
        bool first = a->place.offset == 0 && a->lane == 0 && b->folded[a->sums];
        b->fits = b->fits && first && !b->begun[a->sums];
    }
    b->open = false;
    return VEC_PUSH(b->memory, &b->c->items, item);
}

spyre_status chain_compose(chain_builder *b)
{
    b->in_x = CHAIN_NONE;
    b->fits = true;
    for (uint32_t n = 0; n < b->tiles->count && b->fits; n++) {
        const chain_tile *t = &b->tiles->items[n];
        if (t->role == CHAIN_STREAMS) TRY(add_stream(b, t));
        else if (t->role == CHAIN_REDUCES) TRY(add_reduction(b, t));
        else if (t->tile->instruction->opcode == ISA_FILL) begin_sums(b, t);
        else if (t->tile->instruction->opcode == ISA_FOLD) add_fold(b, t);
        else TRY(add_tile(b, t));
    }
    return NULL;
}
