// SPDX-License-Identifier: Apache-2.0
//
// Dead steps: those that make values without a reader go, and values that are cheap to load again
// are not kept.
#include "card/row_fusion/program/program_builder.h"

// A value that one vector program makes and takes is kept a unit at a time.
static void find_passing(rows_builder *b)
{
    for (uint32_t n = 0; n < b->c->items.count; n++) {
        const rows_item *item = &b->c->items.items[n];
        for (uint32_t v = 0; v < b->value_count; v++)
            if (b->values[v].made - item->first < item->count)
                b->values[v].passes = b->values[v].last - item->first < item->count;
    }
}

static bool stays(const rows_value *v)
{
    return v->kept && !v->passes;
}

// Such a step has no way to load its value again: the vector program that made it keeps it.
static bool takes_kept_apart(uint32_t op)
{
    return rows_takes_kept(op) && op >= VECTOR_APPLY;
}

static void keep_passing(rows_builder *b, uint32_t step)
{
    rows_value *value = &b->values[b->c->steps.items[step].value];
    value->kept = value->passes = true;
    value->last = step;
}

// Steps that take the value as it is kept load it instead.
static void load_value(rows_builder *b, uint32_t v)
{
    for (uint32_t n = 0; n < b->c->steps.count; n++) {
        rows_step *s = &b->c->steps.items[n];
        if (s->value != v || (s->op != VECTOR_KEPT_X && s->op != VECTOR_KEPT_Y)) continue;
        s->place = b->values[v].place;
        if (s->place.format == SPYRE_FORMAT_IEEE_FP32)
            s->op = s->op == VECTOR_KEPT_X ? VECTOR_WIDE_X : VECTOR_WIDE_Y;
        else s->op = s->op == VECTOR_KEPT_X ? VECTOR_LOAD_X : VECTOR_LOAD_Y;
    }
    b->values[v].kept = false;
    for (uint32_t n = 0; n < b->c->steps.count; n++)
        if (b->c->steps.items[n].value == v && takes_kept_apart(b->c->steps.items[n].op))
            keep_passing(b, n);
}

// Only results are worth keeping for others: without them blocks are so long that what there is one
// of a row costs little, and loading again is cheap. More than there is room for of one row cannot
// be kept: first what was loaded is loaded again, then results that are stored anyway.
static void load_again(rows_builder *b, const bool *live)
{
    uint32_t staying = 0, results = 0;
    const uint32_t room = ROWS_KEPT_FLOATS / (SIMD_LANES * b->c->sticks);
    for (uint32_t v = 0; v < b->value_count; v++) {
        staying += stays(&b->values[v]);
        results += stays(&b->values[v]) && b->values[v].stored;
    }
    const bool all = results == 0;
    for (uint32_t stored = 0; stored < 2; stored++) {
        for (uint32_t v = 0; v < b->value_count && (all || staying > room); v++) {
            const rows_value *value = &b->values[v];
            if (!stays(value) || value->stored != stored || (stored && !live[v])) continue;
            load_value(b, v);
            staying--;
        }
    }
}

static bool is_needed(const rows_builder *b, const rows_step *s, const bool *live)
{
    if (vector_keeps(s->op)) return b->values[s->value].kept;
    return !vector_stores(s->op) || live[s->value];
}

// A vector program of loads alone does nothing.
static bool has_effect(const rows_step *steps, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        if (vector_describe(steps[n].op)->gives == VECTOR_NONE) return true;
    return false;
}

// What is looked up and nothing but stored need not come to x. Returns how many steps are left.
static uint32_t join_look_ups(rows_step *steps, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < count; n++) {
        rows_step step = steps[n];
        bool last = n + 2 == count || (n + 2 < count && steps[n + 2].op <= VECTOR_KEPT_X);
        if (step.op == VECTOR_LOOK_UP && last && steps[n + 1].op == VECTOR_STORE) {
            step.op = VECTOR_STORE_LOOK_UP;
            step.place = steps[++n].place;
        }
        steps[kept++] = step;
    }
    return kept;
}

static void drop_steps(rows_builder *b, const bool *live)
{
    row_fusion *c = b->c;
    uint32_t items = 0, steps = 0;
    for (uint32_t n = 0; n < c->items.count; n++) {
        rows_item item = c->items.items[n];
        uint32_t first = steps;
        for (uint32_t s = item.first; s < item.first + item.count; s++)
            if (is_needed(b, &c->steps.items[s], live)) c->steps.items[steps++] = c->steps.items[s];
        bool is_program = item.count > 0;
        item.first = first;
        item.count = join_look_ups(c->steps.items + first, steps - first);
        steps = first + item.count;
        if (is_program && !has_effect(c->steps.items + first, item.count)) steps = first;
        else c->items.items[items++] = item;
        if (is_program) rows_drop_roundings(b, item.count, c->steps.items + first);
    }
    c->items.count = items;
    c->steps.count = steps;
}

void rows_drop_dead_steps(rows_builder *b, const bool *value_live)
{
    find_passing(b);
    load_again(b, value_live);
    drop_steps(b, value_live);
}
