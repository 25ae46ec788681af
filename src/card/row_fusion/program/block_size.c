// SPDX-License-Identifier: Apache-2.0
//
// Block size: how many rows a row fusion takes at a time, and what that fixes, where the rows and
// sticks of a step lie and the tiles of a block.
#include "card/row_fusion/program/program_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"

// Kept values stay in the host's first cache, what passes by more than once in the second.
enum { KEPT_BYTES = 96 << 10, PASSING_BYTES = 128 << 10, STICK_BYTES = SIMD_LANES * 4 };

// Of a block that keeps what it loads once, beside what passes in the host's first cache.
enum { LOADED_ROWS = 31 };

// Of a block, beside which it costs little to begin one.
enum { LEAST_UNITS = 256 };

// Of the host's first cache, where rows of a block are neighbours; and how many there are at least.
enum { AHEAD_BYTES = 32 << 10, LEAST_ROWS = 16 };

// Rows that lie in groups are taken group by group where that makes blocks so many times as long.
enum { LONGER_BLOCKS = 2 };

// So many rows, the first of a block, lie at one stride, or at one after every `inner` rows.
static bool lie_evenly(const nested_strides *n, uint32_t rows, uint32_t inner)
{
    if (nested_strides_is_even(n) || n->extent[0] % rows == 0) return true;
    if (n->extent[0] != inner || rows % inner != 0) return false;
    return n->levels == 2 || n->extent[1] % (rows / inner) == 0;
}

// Tiles have the rows of a block in one dim or in two, this is the extent of the inner one;
// 0 where these do not suffice.
static uint32_t inner_rows(const row_fusion *c, uint32_t rows)
{
    uint32_t inner = rows;
    if (c->group < c->rows && rows <= c->group) return rows;
    for (uint32_t n = 0; n < c->items.count; n++)
        for (uint32_t o = 0; o < c->items.items[n].operands; o++) {
            const nested_strides *row = &c->items.items[n].operand[o].place.row;
            if (inner == rows && !nested_strides_is_even(row) && row->extent[0] % rows != 0)
                inner = row->extent[0];
            if (!lie_evenly(row, rows, inner)) return 0;
        }
    return inner;
}

// Where steps have their rows is listed once for all blocks.
static bool blocks_are_alike(const row_fusion *c, uint32_t rows)
{
    for (uint32_t n = 0; n < c->steps.count; n++)
        if (!nested_strides_has_blocks(&c->steps.items[n].place.row, rows)) return false;
    return true;
}

// The most rows up to so many; fewer, but not much, for blocks that are alike.
static uint32_t divide_rows(const row_fusion *c, uint32_t most)
{
    while (!inner_rows(c, most)) most--;
    for (uint32_t rows = most; rows > 0 && rows >= most / 4; rows--)
        if (inner_rows(c, rows) && blocks_are_alike(c, rows)) return rows;
    return most;
}

// Most steps have the sticks of a row nearer to each other than rows: then few rows are together
// what the host's caches and page tables can follow.
static bool sticks_are_nearer(const row_fusion *c)
{
    int32_t nearer = 0;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const rows_place *p = &c->steps.items[n].place;
        if (!vector_takes_elements(c->steps.items[n].op)) continue;
        const int64_t row = nested_strides_stride(&p->row),
                      stick = nested_strides_stride(&p->stick);
        nearer += row && stick ? (llabs(stick) < llabs(row) ? 1 : -1) : 0;
    }
    return nearer > 0;
}

// All elements are taken by one vector program, which keeps none.
static bool passes_once(const row_fusion *c)
{
    uint32_t programs = 0;
    for (uint32_t n = 0; n < c->items.count; n++) programs += c->items.items[n].count > 0;
    return programs == 1 && !c->kept;
}

// What passes by once: of all its streams a stick of the block and the one that is fetched
// meanwhile lie in the host's first cache together.
static size_t passing_rows(const row_fusion *c)
{
    size_t streams = 0;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        const uint32_t op = c->steps.items[n].op;
        streams += vector_takes_elements(op) && !vector_takes_rows(op);
    }
    if (sticks_are_nearer(c)) return LEAST_UNITS / c->sticks + 1;
    const size_t rows = AHEAD_BYTES / (2 * SPYRE_STICK_BYTES * (streams ? streams : 1));
    return rows < LEAST_ROWS ? LEAST_ROWS : rows;
}

// Of as few blocks as there are of at most so many rows: none of them is a short one.
static size_t share_evenly(size_t rows, size_t most)
{
    const size_t blocks = (rows - 1) / most + 1;
    return (rows - 1) / blocks + 1;
}

static uint32_t group_within(uint32_t group, const nested_strides *row)
{
    return nested_strides_is_even(row) ? group : (uint32_t)common_divisor(group, row->extent[0]);
}

// So many rows, from each multiple of them on, lie at one stride everywhere: the 197 of a core.
static uint32_t even_rows(const row_fusion *c)
{
    uint32_t rows = c->rows;
    for (uint32_t n = 0; n < c->items.count; n++)
        for (uint32_t o = 0; o < c->items.items[n].operands; o++)
            rows = group_within(rows, &c->items.items[n].operand[o].place.row);
    for (uint32_t n = 0; n < c->steps.count; n++)
        rows = group_within(rows, &c->steps.items[n].place.row);
    return rows;
}

static void choose_block(const rows_builder *b)
{
    row_fusion *c = b->c;
    size_t row = (size_t)c->sticks * (c->kept ? c->kept * STICK_BYTES : STICK_BYTES / 2);
    size_t rows = (c->kept ? KEPT_BYTES : PASSING_BYTES) / row;
    if (rows < 1) rows = 1;
    if (c->items.count == 1) rows = share_evenly(c->rows, passing_rows(c));
    else if (passes_once(c) && !sticks_are_nearer(c)) rows = ROWS_MOST_ROWS;
    if (c->inner && rows > LOADED_ROWS / c->sticks) rows = LOADED_ROWS / c->sticks + 1;
    if (rows > ROWS_MOST_ROWS) rows = ROWS_MOST_ROWS;
    if (rows > c->rows) rows = c->rows;
    c->group = c->rows;
    c->block = divide_rows(c, (uint32_t)rows);
    const uint32_t even = even_rows(c);
    const size_t within = share_evenly(even, rows < even ? rows : even);
    if (within < (size_t)LONGER_BLOCKS * c->block) return;
    c->group = even;
    c->block = (uint32_t)within;
}

// --- Places

static spyre_status list_nest(arena *memory, const nested_strides *nest, size_t count,
                              const int64_t **out)
{
    int64_t *at = ARENA_NEW(memory, int64_t, count);
    TRY_ALLOC(at);
    nested_strides_list(nest, 0, count, at);
    *out = at;
    return NULL;
}

// Lists of earlier steps whose rows, or sticks, lie alike.
static void share_lists(const row_fusion *c, rows_step *s)
{
    for (const rows_step *other = c->steps.items; other < s; other++) {
        if (!vector_takes_elements(other->op)) continue;
        if (nested_strides_equal(&s->place.row, &other->place.row)) s->row_at = other->row_at;
        if (nested_strides_equal(&s->place.stick, &other->place.stick))
            s->stick_at = other->stick_at;
    }
}

static spyre_status list_places(rows_builder *b)
{
    const row_fusion *c = b->c;
    for (uint32_t n = 0; n < c->steps.count; n++) {
        rows_step *s = &c->steps.items[n];
        if (!vector_takes_elements(s->op)) continue;
        share_lists(c, s);
        const bool alike = c->group < c->rows ||
                           nested_strides_has_blocks(&s->place.row, c->block);
        if (!s->row_at && alike)
            TRY(list_nest(b->memory, &s->place.row, c->block + c->rows_ahead, &s->row_at));
        if (!s->stick_at)
            TRY(list_nest(b->memory, &s->place.stick, c->sticks, &s->stick_at));
    }
    return NULL;
}

// --- Tiles

static spyre_status make_tile(const rows_builder *b, const rows_item *item, uint32_t rows,
                              plan_tile **out)
{
    const rows_tile *t = item->made_of;
    const uint32_t inner = inner_rows(b->c, rows), outer = rows / inner;
    // One element a row makes a run along the longer dim.
    const uint32_t last = item->lanes == 1 && outer > inner ? 0 : 1;
    isa_instruction i = isa_copy(t->tile->instruction);
    const uint32_t runs = item->lanes == SIMD_LANES ? 2 : 1;
    i.dim_count = item->lanes > 1 ? 4 : 2;
    i.extent[1 - last] = outer;
    i.extent[last] = inner;
    i.extent[2] = runs;
    i.extent[3] = item->lanes / runs;
    for (uint32_t o = 0; o < i.operand_count; o++) {
        const nested_strides *row = &item->operand[o].place.row;
        memset(i.operand[o].stride, 0, sizeof i.operand[o].stride);
        memset(i.operand[o].loop_stride, 0, sizeof i.operand[o].loop_stride);
        i.operand[o].stride[1 - last] = nested_strides_at(row, inner);
        i.operand[o].stride[last] = nested_strides_stride(row);
        if (runs > 1) i.operand[o].stride[2] = rows_second_run(&t->operand[o]);
        if (item->lanes > 1) i.operand[o].stride[3] = t->operand[o].lane;
    }
    return plan_copy_tile(b->memory, &i, out);
}

// Of the rows of a block, and of those that are left in the end.
static spyre_status make_tiles(rows_builder *b)
{
    row_fusion *c = b->c;
    const uint32_t rest = rows_left(c);
    for (uint32_t n = 0; n < c->items.count; n++) {
        rows_item *item = &c->items.items[n];
        if (item->count) continue;
        TRY(make_tile(b, item, c->block, &item->tile[0]));
        if (rest) TRY(make_tile(b, item, rest, &item->tile[1]));
    }
    return NULL;
}

spyre_status rows_make_blocks(rows_builder *b)
{
    row_fusion *c = b->c;
    rows_choose_areas(b);
    choose_block(b);
    c->rows_ahead = (VECTOR_UNITS_AHEAD + c->sticks - 1) / c->sticks;
    b->fits = rows_kept_sticks(c) * SIMD_LANES <= ROWS_KEPT_FLOATS &&
              c->passing <= ROWS_MOST_PASSING;
    if (!b->fits) return NULL;
    TRY(list_places(b));
    rows_choose_streaming(b);
    TRY(rows_share_windows(b));
    return make_tiles(b);
}
