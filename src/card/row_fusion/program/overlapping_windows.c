// SPDX-License-Identifier: Apache-2.0
//
// Overlapping windows: rows that are windows of an image have sticks in common. Of 28 windows of
// 7 x 7 elements, side by side, 1,372 sticks are 238 places in seven lines. Each of these is
// converted once for a block, in an area without gaps, and the windows read it there:
//
//     rows 128 bytes apart, sticks [7, 128] [7, 7680]: 34 places 128 bytes apart in each line
//     LOAD_X arg0; LINE_Y arg1; mul fp32; SUM     ->     READY_X; LINE_Y; mul fp32; SUM
//
// Only where sums are all that the program makes: it is done row by row, so that the area is read
// while it lies in the host's first caches.
#include "card/row_fusion/program/program_builder.h"

#include <string.h>

#include "base/integer.h"

// Of a block's sticks there is one place for so many, or more; places of an area.
enum { WORTH_SHARING = 2, MOST_PLACES = 512, READY_BYTES = SIMD_LANES * 4 };

// Levels of rows and sticks that share places: `reach` of them, `unit` bytes apart. Those of the
// next group are further apart than all of this one together.
typedef struct {
    int64_t unit, reach;
} place_group;

typedef struct {
    uint32_t groups;
    place_group group[2 * NESTED_STRIDES_MOST_LEVELS];
    uint32_t count;                         // places of all groups
    int64_t at[MOST_PLACES];                // bytes from the block's first element
    bool taken[MOST_PLACES];
} places;

// The place of an element so many bytes from the first one.
static int64_t place_at(const places *p, int64_t bytes)
{
    int64_t place = 0;
    for (uint32_t n = p->groups; n-- > 0;) {
        place = place * p->group[n].reach + bytes / p->group[n].unit;
        bytes %= p->group[n].unit;
    }
    return place;
}

static void add_level(places *p, int64_t extent, int64_t stride)
{
    place_group *last = &p->group[p->groups ? p->groups - 1 : 0];
    if (!p->groups || stride > last->unit * last->reach) {
        p->group[p->groups++] = (place_group){stride, extent};
        return;
    }
    const int64_t unit = common_divisor(last->unit, stride);
    last->reach = (last->reach - 1) * (last->unit / unit) + 1 + (extent - 1) * (stride / unit);
    last->unit = unit;
}

typedef struct {
    int64_t extent, stride;
} level;

// By rising stride; of rows those of a block. Returns 0 where one goes back.
static uint32_t list_levels(const rows_place *p, uint32_t rows, level *out)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < p->row.levels + p->stick.levels; n++) {
        const bool of_rows = n < p->row.levels;
        const nested_strides *nest = of_rows ? &p->row : &p->stick;
        const uint32_t l = of_rows ? n : n - p->row.levels;
        level one = {nest->extent[l], nest->stride[l]};
        if (of_rows && one.extent > rows) one.extent = rows;
        if (of_rows) rows = (rows - 1) / (uint32_t)one.extent + 1;
        if (one.stride < 0) return 0;
        if (one.stride == 0 || one.extent == 1) continue;
        uint32_t at = count++;
        for (; at > 0 && out[at - 1].stride > one.stride; at--) out[at] = out[at - 1];
        out[at] = one;
    }
    return count;
}

// Those of so many rows, in groups that are known.
static void take_places(const rows_step *s, uint32_t rows, uint32_t sticks, places *p)
{
    memset(p->taken, 0, sizeof p->taken);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t stick = 0; stick < sticks; stick++) {
            const int64_t bytes = s->row_at[row] + s->stick_at[stick], place = place_at(p, bytes);
            p->at[place] = bytes;
            p->taken[place] = true;
        }
}

static bool find_places(const rows_step *s, uint32_t rows, uint32_t sticks, places *out)
{
    level levels[2 * NESTED_STRIDES_MOST_LEVELS];
    const uint32_t count = list_levels(&s->place, rows, levels);
    int64_t all = 1;
    *out = (places){.groups = 0};
    for (uint32_t n = 0; n < count; n++) add_level(out, levels[n].extent, levels[n].stride);
    for (uint32_t n = 0; n < out->groups && all <= MOST_PLACES; n++) all *= out->group[n].reach;
    if (!count || all > MOST_PLACES || WORTH_SHARING * all > rows * sticks) return false;
    out->count = (uint32_t)all;
    take_places(s, rows, sticks, out);
    return true;
}

static spyre_status list_runs(arena *memory, const places *p, rows_overlap *o, bool rest)
{
    rows_run_of_sticks *runs = ARENA_NEW(memory, rows_run_of_sticks, p->count);
    TRY_ALLOC(runs);
    uint32_t *count = &o->runs[rest].count;
    for (uint32_t n = 0; n < p->count; n++) {
        if (!p->taken[n]) continue;
        if (n == 0 || !p->taken[n - 1]) runs[(*count)++] = (rows_run_of_sticks){.first = n};
        runs[*count - 1].count++;
    }
    o->runs[rest].items = runs;
    return NULL;
}

// With so many more, which are looked at and not taken.
static spyre_status list_ready(arena *memory, const places *p, uint32_t count, uint32_t more,
                               const int64_t *from, const int64_t **out)
{
    int64_t *at = ARENA_NEW(memory, int64_t, count + more);
    TRY_ALLOC(at);
    for (uint32_t n = 0; n < count; n++) at[n] = place_at(p, from[n]) * READY_BYTES;
    *out = at;
    return NULL;
}

static spyre_status share_places(rows_builder *b, rows_step *s, const places *whole)
{
    row_fusion *c = b->c;
    const uint32_t rest = rows_left(c);
    rows_overlap *o;
    int64_t *at = ARENA_NEW(b->memory, int64_t, whole->count);
    TRY_ALLOC(at);
    TRY_NEW(b->memory, o, 1);
    memcpy(at, whole->at, whole->count * sizeof *at);
    *o = (rows_overlap){.area = c->overlapping, .at = at};
    TRY(list_ready(b->memory, whole, c->block, c->rows_ahead, s->row_at, &o->row_at));
    TRY(list_ready(b->memory, whole, c->sticks, 0, s->stick_at, &o->stick_at));
    TRY(list_runs(b->memory, whole, o, false));
    if (rest) {
        places left = *whole;
        take_places(s, rest, c->sticks, &left);
        TRY(list_runs(b->memory, &left, o, true));
    }
    c->overlapping += whole->count;
    s->overlap = o;
    s->streams = false;
    return NULL;
}

// All that the program makes is sums.
static bool makes_sums(const row_fusion *c, const rows_item *item)
{
    bool sums = false;
    for (uint32_t n = 0; n < item->count; n++) {
        const uint32_t op = c->steps.items[item->first + n].op;
        if (vector_stores(op) || vector_keeps(op)) return false;
        sums |= vector_sums(op);
    }
    return sums;
}

spyre_status rows_share_windows(rows_builder *b)
{
    row_fusion *c = b->c;
    for (uint32_t i = 0; i < c->items.count && !c->inner; i++) {
        const rows_item *item = &c->items.items[i];
        if (!item->count || !makes_sums(c, item)) continue;
        for (uint32_t n = item->first; n < item->first + item->count; n++) {
            rows_step *s = &c->steps.items[n];
            places whole;
            if (s->op != VECTOR_LOAD_X || s->place.own || !s->row_at) continue;
            if (!find_places(s, c->block, c->sticks, &whole)) continue;
            const size_t sticks = rows_kept_sticks(c) + c->overlapping + whole.count;
            if (sticks * SIMD_LANES <= ROWS_KEPT_FLOATS) TRY(share_places(b, s, &whole));
        }
    }
    return NULL;
}
