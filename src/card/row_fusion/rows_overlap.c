// SPDX-License-Identifier: Apache-2.0
//
// Rows that are windows of an image have sticks in common: of 28 windows of 7 x 7 elements, side by
// side, 1,372 sticks are 238 places in seven lines. Each of these is converted once for a block, in
// an area that has a place for every multiple of their distance, and the windows read it there:
//
//     rows 128 bytes apart, sticks [7, 128] [7, 4352]: 34 places 128 bytes apart in each line
//     LOAD_X arg0; LINE_Y arg1; mul fp32; SUM     ->     READY_X; LINE_Y; mul fp32; SUM
//
// Only where sums are all that the program makes: it is done row by row, so that the area is read
// while it lies in the host's first caches.
#include "card/row_fusion/rows_build.h"

#include <string.h>

// Of a block's sticks there is one place for so many, or more; places of an area.
enum { WORTH_SHARING = 2, MOST_PLACES = 512, READY_BYTES = SIMD_LANES * 4 };

// Places of the sticks of so many rows, as multiples of `distance`.
typedef struct {
    int64_t distance;
    uint32_t count, shared;                 // from the first to the last one; those that are taken
    bool taken[MOST_PLACES];
} places;

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// The largest distance of which all levels' strides are multiples; 0 where one goes back.
static int64_t distance_of(const rows_place *p)
{
    int64_t distance = 0;
    for (uint32_t n = 0; n < 2 * ROWS_MOST_LEVELS; n++) {
        const rows_nest *nest = n % 2 ? &p->stick : &p->row;
        if (n / 2 >= nest->levels) continue;
        if (nest->stride[n / 2] < 0) return 0;
        distance = common_divisor(nest->stride[n / 2], distance);
    }
    return distance;
}

static bool find_places(const rows_step *s, uint32_t rows, uint32_t sticks, places *out)
{
    *out = (places){.distance = distance_of(&s->place)};
    for (uint32_t row = 0; out->distance && row < rows; row++)
        for (uint32_t stick = 0; stick < sticks; stick++) {
            const int64_t at = (s->row_at[row] + s->stick_at[stick]) / out->distance;
            if (at >= MOST_PLACES) return false;
            out->shared += !out->taken[at];
            out->taken[at] = true;
            if (at >= out->count) out->count = (uint32_t)at + 1;
        }
    return out->distance && WORTH_SHARING * out->shared <= rows * sticks;
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

// Where places lie: in memory at multiples of `distance`, as values at those of their own size.
static spyre_status list_at(arena *memory, uint32_t count, const int64_t *from, int64_t distance,
                            const int64_t **out)
{
    int64_t *at = ARENA_NEW(memory, int64_t, count);
    TRY_ALLOC(at);
    for (uint32_t n = 0; n < count; n++)
        at[n] = from ? from[n] / distance * READY_BYTES : n * distance;
    *out = at;
    return NULL;
}

static spyre_status share_places(rows_builder *b, rows_step *s, const places *whole)
{
    row_fusion *c = b->c;
    const uint32_t rest = c->rows % c->block;
    places left;
    rows_overlap *o;
    TRY_NEW(b->memory, o, 1);
    *o = (rows_overlap){.area = c->overlapping};
    TRY(list_at(b->memory, whole->count, NULL, whole->distance, &o->at));
    TRY(list_at(b->memory, c->block + c->rows_ahead, s->row_at, whole->distance, &o->row_at));
    TRY(list_at(b->memory, c->sticks, s->stick_at, whole->distance, &o->stick_at));
    TRY(list_runs(b->memory, whole, o, false));
    if (rest) {
        find_places(s, rest, c->sticks, &left);
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
        if (rows_stores(op) || op == VECTOR_KEEP || op == VECTOR_KEEP_Y) return false;
        sums |= vector_sums(op);
    }
    return sums;
}

spyre_status rows_find_overlaps(rows_builder *b)
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
