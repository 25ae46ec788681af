// SPDX-License-Identifier: Apache-2.0
//
// A vector program that takes nothing of the tiles between it and the one before it becomes part of
// that one: elements that both take pass in registers, and a row is walked once. Its sums get areas
// of their own, because reductions one after the other have the same:
//
//     LOAD_X; KEEP; SUM area 0             LOAD_X; KEEP; SUM area 0; KEPT_X; SQUARES area 1
//     mul area 0                     ->    mul area 0
//     KEPT_X; SQUARES area 0               mul area 1
//     mul area 0
//
// So that there is less between them, tiles that take nothing of a program go in front of it.
#include <string.h>

#include "card/row_fusion/cores/message_map.h"
#include "card/row_fusion/program/program_builder.h"

static bool is_program(const rows_item *item)
{
    return item->count > 0;
}

// The step touches elements of memory, or of LX, that operand o of the tile does, and one of them
// writes.
static bool meet(const row_fusion *c, const rows_step *s, const rows_tile *t, uint32_t o,
                 const rows_operand *operand)
{
    const rows_place *p = &s->place;
    if (operand->sums != ROWS_NONE || operand->constant || (o > 0 && !vector_stores(s->op)))
        return false;
    if (p->space != operand->place.space) return false;
    if (p->space != ISA_SPACE_LX) return p->arg == operand->place.arg;
    return ranges_overlap(rows_step_range(c, s), rows_reach(t, o));
}

static bool keeps_away(const row_fusion *c, const rows_step *s, const rows_item *tile)
{
    const rows_tile *t = tile->made_of;
    if (!vector_takes_elements(s->op) || s->filled) return true;
    for (uint32_t o = 0; o < tile->operands; o++)
        if (meet(c, s, t, o, &tile->operand[o])) return false;
    return true;
}

// A store that rows_drop_dead_steps() will drop.
static bool is_dead(const rows_step *s, const bool *value_live)
{
    return vector_stores(s->op) && !value_live[s->value];
}

// At most so many values pass in a program at once.
static bool has_slots(const rows_builder *b, const rows_item *one, const rows_item *other)
{
    uint32_t values = 0;
    for (uint32_t n = one->first; n < other->first + other->count; n++) {
        const rows_step *s = &b->c->steps.items[n];
        values += vector_keeps(s->op) && b->values[s->value].kept;
    }
    return values <= ROWS_MOST_PASSING;
}

// Of the program at item `at` no step takes or changes what tiles behind item `before` do.
static bool may_merge(const rows_builder *b, uint32_t before, uint32_t at, const bool *value_live)
{
    const row_fusion *c = b->c;
    const rows_item *items = c->items.items;
    if (!has_slots(b, &items[before], &items[at])) return false;
    for (uint32_t n = items[at].first; n < items[at].first + items[at].count; n++) {
        const rows_step *s = &c->steps.items[n];
        for (uint32_t tile = before + 1; tile < at && !is_dead(s, value_live); tile++)
            if (!keeps_away(c, s, &items[tile])) return false;
    }
    return true;
}

// --- Areas of sums

static bool sums_into(const row_fusion *c, const rows_item *program, uint32_t area)
{
    for (uint32_t n = program->first; n < program->first + program->count; n++)
        if (vector_sums(c->steps.items[n].op) && c->steps.items[n].area == area) return true;
    return false;
}

static bool has_area(const row_fusion *c, const rows_item *item, uint32_t area)
{
    if (is_program(item)) return sums_into(c, item, area);
    for (uint32_t o = 0; o < item->operands; o++)
        if (item->operand[o].sums == area) return true;
    return false;
}

// The first item behind `at` that sums into the area anew, or behind all. Sums of a kernel have an
// area each, so nothing behind that item takes sums of programs in front of `at`.
static uint32_t end_of_sums(const row_fusion *c, uint32_t at, uint32_t area)
{
    uint32_t end = at + 1;
    while (end < c->items.count && !(is_program(&c->items.items[end]) &&
                                     sums_into(c, &c->items.items[end], area)))
        end++;
    return end;
}

static void rename_area(row_fusion *c, uint32_t at, uint32_t end, uint32_t area, uint32_t to)
{
    for (uint32_t n = at; n < end; n++) {
        rows_item *item = &c->items.items[n];
        for (uint32_t s = item->first; s < item->first + item->count; s++)
            if (vector_sums(c->steps.items[s].op) && c->steps.items[s].area == area)
                c->steps.items[s].area = to;
        for (uint32_t o = 0; o < item->operands; o++)
            if (item->operand[o].sums == area) item->operand[o].sums = to;
    }
}

// The sums of the program at item `at` get an area that nothing has from item `before` to where
// they end; false where there is none.
static bool move_sums(row_fusion *c, uint32_t before, uint32_t at, uint32_t area)
{
    const uint32_t end = end_of_sums(c, at, area);
    for (uint32_t to = 0; to < ROWS_MOST_SUMS; to++) {
        bool busy = false;
        for (uint32_t n = before; n < end && !busy; n++) busy = has_area(c, &c->items.items[n], to);
        if (busy) continue;
        rename_area(c, at, end, area, to);
        return true;
    }
    return false;
}

// Gives sums of the program at item `at` other areas than items from `before` on have; false where
// there are none.
static bool part_sums(row_fusion *c, uint32_t before, uint32_t at)
{
    for (uint32_t area = 0; area < ROWS_MOST_SUMS; area++) {
        bool meets = false;
        for (uint32_t n = before; n < at; n++) meets |= has_area(c, &c->items.items[n], area);
        if (!meets || !sums_into(c, &c->items.items[at], area)) continue;
        if (!move_sums(c, before, at, area)) return false;
    }
    return true;
}

// --- Tiles in front of a program

static bool operands_meet(const rows_item *a, uint32_t x, const rows_item *b, uint32_t y)
{
    const rows_operand *one = &a->operand[x], *other = &b->operand[y];
    if ((x > 0 && y > 0) || one->constant || other->constant) return false;
    if (one->sums != ROWS_NONE || other->sums != ROWS_NONE) return one->sums == other->sums;
    if (one->place.space != other->place.space) return false;
    if (one->place.space != ISA_SPACE_LX) return one->place.arg == other->place.arg;
    return ranges_overlap(rows_reach(a->made_of, x), rows_reach(b->made_of, y));
}

static bool tiles_meet(const rows_item *a, const rows_item *b)
{
    for (uint32_t x = 0; x < a->made_of->tile->instruction->operand_count; x++)
        for (uint32_t y = 0; y < b->made_of->tile->instruction->operand_count; y++)
            if (operands_meet(a, x, b, y)) return true;
    return false;
}

static bool tile_and_program_meet(const row_fusion *c, const rows_item *tile,
                                  const rows_item *program, const bool *value_live)
{
    for (uint32_t n = program->first; n < program->first + program->count; n++) {
        const rows_step *s = &c->steps.items[n];
        if (vector_sums(s->op) && has_area(c, tile, s->area)) return true;
        if (!is_dead(s, value_live) && !keeps_away(c, s, tile)) return true;
    }
    return false;
}

// Moves tiles behind the program at item `at` that meet neither it nor tiles that stay there in
// front of it. Returns where the program is then.
static uint32_t hoist_tiles(row_fusion *c, uint32_t at, const bool *value_live)
{
    rows_item *items = c->items.items;
    for (uint32_t n = at + 1; n < c->items.count && !is_program(&items[n]); n++) {
        const rows_item tile = items[n];
        bool stays = tile_and_program_meet(c, &tile, &items[at], value_live);
        for (uint32_t between = at + 1; between < n && !stays; between++)
            stays = tiles_meet(&items[between], &tile);
        if (stays) continue;
        memmove(&items[at + 1], &items[at], (n - at) * sizeof *items);
        items[at++] = tile;
    }
    return at;
}

// --- Merging

static void remove_item(row_fusion *c, uint32_t at)
{
    rows_item *item = &c->items.items[at];
    memmove(item, item + 1, (--c->items.count - at) * sizeof *item);
}

void rows_merge_programs(const rows_builder *b, const bool *value_live)
{
    row_fusion *c = b->c;
    uint32_t before = 0;
    while (before < c->items.count && !is_program(&c->items.items[before])) before++;
    if (before < c->items.count) before = hoist_tiles(c, before, value_live);
    for (uint32_t at = before + 1; at < c->items.count; at++) {
        if (!is_program(&c->items.items[at])) continue;
        if (!may_merge(b, before, at, value_live) || !part_sums(c, before, at)) {
            before = at = hoist_tiles(c, at, value_live);
            continue;
        }
        c->items.items[before].count += c->items.items[at].count;
        remove_item(c, at);
        at = before = hoist_tiles(c, before, value_live);
    }
}
