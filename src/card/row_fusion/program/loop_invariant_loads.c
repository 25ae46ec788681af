// SPDX-License-Identifier: Apache-2.0
//
// Loop-invariant loads: elements that stand still while loops around a row fusion go on. A block of
// rows goes through all iterations of these loops before the next block, and keeps what it has
// loaded once, in fp32. Of 20 heads of 256 positions that are turned by the same cosines:
//
//     20 times 256 rows: LOAD_X arg0; LOAD_Y arg1; mul; STORE arg2
//
//     256 rows, each block 20 times:
//         once: LOAD_X arg1; KEEP
//         LOAD_X arg0; KEPT_Y; mul; STORE arg2
//
// Only of one vector program: values of rows, and what later programs take, are of one iteration.
#include <string.h>

#include "card/row_fusion/conditions/dependences.h"
#include "card/row_fusion/program/program_builder.h"

enum { FEWEST_ROWS = 8 };                   // of a block that keeps them all

static bool loads(const rows_step *s)
{
    return s->op == VECTOR_LOAD_X || s->op == VECTOR_LOAD_Y;
}

static bool stands(const row_fusion *c, const rows_step *s, uint32_t loops)
{
    for (uint32_t n = c->loops - loops; n < c->loops; n++)
        if (s->place.outer[n] != 0) return false;
    return loads(s);
}

static bool some_stand(const row_fusion *c, uint32_t loops)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        if (stands(c, &c->steps.items[n], loops)) return true;
    return false;
}

// The most innermost loops in all of which something stands.
static uint32_t find_inner(const row_fusion *c)
{
    uint32_t loops = 0;
    while (loops < c->loops && some_stand(c, loops + 1)) loops++;
    return loops;
}

// Lines and values of rows are loaded anew in every iteration, sums are made there.
static bool suits(const row_fusion *c)
{
    if (c->joined || c->items.count != 1 || !c->items.items[0].count) return false;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const uint32_t op = c->steps.items[n].op;
        if (vector_sums(op) || vector_takes_rows(op) || op == VECTOR_LINE_Y) return false;
    }
    return true;
}

static spyre_status add_step(rows_builder *b, rows_step step)
{
    b->c->items.items[b->c->items.count - 1].count++;
    return VEC_PUSH(b->scratch, &b->c->steps, step);
}

// The value of a place that is loaded once; or ROWS_NONE.
static uint32_t find_once(const rows_builder *b, const rows_place *place)
{
    const rows_step *steps = b->c->steps.items;
    for (uint32_t n = 0; n < b->c->items.items[0].count; n += 2)
        if (rows_same_place(b->first, &steps[n].place, place)) return steps[n + 1].value;
    return ROWS_NONE;
}

static spyre_status keep_once(rows_builder *b, const rows_place *place)
{
    const uint32_t id = b->value_count++;
    b->values[id] = (rows_value){.place = *place, .last = UINT32_MAX, .kept = true};
    TRY(add_step(b, (rows_step){.op = VECTOR_LOAD_X, .place = *place, .value = ROWS_NONE}));
    return add_step(b, (rows_step){.op = VECTOR_KEEP, .value = id});
}

static spyre_status add_once(rows_builder *b, const row_fusion *before, uint32_t loops)
{
    TRY(VEC_PUSH(b->scratch, &b->c->items, (rows_item){.once = true}));
    for (uint32_t n = 0; n < before->steps.count; n++) {
        const rows_step *s = &before->steps.items[n];
        const bool room = b->value_count < ROWS_MOST_STEPS;
        if (room && stands(before, s, loops) && find_once(b, &s->place) == ROWS_NONE)
            TRY(keep_once(b, &s->place));
    }
    return NULL;
}

// What a step that stands loads, and the step behind it keeps, is kept already.
static spyre_status add_program(rows_builder *b, const row_fusion *before, uint32_t loops)
{
    uint32_t kept_as[ROWS_MOST_STEPS];
    for (uint32_t v = 0; v < ROWS_MOST_STEPS; v++) kept_as[v] = v;
    TRY(VEC_PUSH(b->scratch, &b->c->items, (rows_item){.first = b->c->steps.count}));
    for (uint32_t n = 0; n < before->steps.count; n++) {
        rows_step step = before->steps.items[n];
        const uint32_t id = stands(before, &step, loops) ? find_once(b, &step.place) : ROWS_NONE;
        if (id != ROWS_NONE) {
            const rows_step *next = &before->steps.items[n + 1];
            step.op = step.op == VECTOR_LOAD_X ? VECTOR_KEPT_X : VECTOR_KEPT_Y;
            step.value = id;
            if (vector_keeps(next->op)) {
                kept_as[next->value] = id;
                b->values[next->value].kept = false;
                n++;
            }
        } else if (rows_takes_kept(step.op)) {
            step.value = kept_as[step.value];
        }
        TRY(add_step(b, step));
    }
    return NULL;
}

spyre_status rows_hoist_loads(rows_builder *b)
{
    row_fusion *c = b->c;
    const uint32_t loops = find_inner(c), values = b->value_count;
    if (!loops || !suits(c) || !rows_loops_turn(c, b->first, loops)) return NULL;
    const row_fusion before = *c;
    memset(&c->items, 0, sizeof c->items);
    memset(&c->steps, 0, sizeof c->steps);
    TRY(add_once(b, &before, loops));
    const size_t kept = b->value_count - values;
    const uint32_t rows = c->rows < FEWEST_ROWS ? c->rows : FEWEST_ROWS;
    if (kept * c->sticks * SIMD_LANES * rows > ROWS_KEPT_FLOATS ||
        c->steps.count + before.steps.count > ROWS_MOST_STEPS) {
        *c = before;
        b->value_count = values;
        return NULL;
    }
    c->inner = loops;
    return add_program(b, &before, loops);
}
