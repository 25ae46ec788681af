// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/conditions/fusible_tiles.h"

#include "card/row_fusion/conditions/dependences.h"
#include "card/row_fusion/conditions/later_readers.h"
#include "card/row_fusion/conditions/profitability.h"

// The only tile of its kernel: loops around it are dims of it.
static bool is_alone(const rows_tiles *tiles, const rows_tile *t)
{
    uint32_t own = 0;
    for (uint32_t n = 0; n < tiles->count; n++) own += tiles->items[n].kernel == t->kernel;
    return own == 1 && !t->outer;
}

// Loops that several tiles share go over rows alone.
static bool loops_are_rows(const rows_tiles *tiles, const rows_tile *t)
{
    return t->outer || is_alone(tiles, t) || t->role > ROWS_REDUCES || t->loops_are_rows;
}

// The tile's result is a per-row value or a stream in LX.
static bool may_stay_inside(const rows_tiles *tiles, const rows_tile *t)
{
    const rows_access *result = &t->operand[0];
    const bool own_loops = t->loops.depth > t->cores;
    bool inside = t->role == ROWS_STREAMS ? !own_loops || is_alone(tiles, t)
                                          : t->role == ROWS_BY_ROW && t->lanes == 1 && !own_loops;
    return inside && result->place.space == ISA_SPACE_LX && result->sums == ROWS_NONE &&
           !result->constant;
}

// With how many kernels, at most `kernels`, no instruction behind them, or of a later iteration,
// reads the tile's result; 0 where its own kernel's end is too late for that.
static uint32_t kernels_without_reader(const rows_window *w, uint32_t kernels, const rows_tile *t)
{
    for (; kernels > t->kernel; kernels--)
        if (!rows_is_read(w, w->first + kernels - 1, t)) return kernels;
    return 0;
}

// An earlier tile's result, which nothing reads behind the row fusion, is marked to stay inside of
// it; false where it may not.
static bool mark_earlier(const rows_window *w, uint32_t kernels, const rows_tiles *tiles,
                         rows_tile *earlier)
{
    if (!earlier->stays_inside)
        earlier->stays_inside = may_stay_inside(tiles, earlier) &&
                                !rows_is_read(w, w->first + kernels - 1, earlier);
    return earlier->stays_inside;
}

// The tile is in order behind all tiles before it. Where results conflict, that of the tile is
// marked to stay inside of the row fusion, of which *fewer kernels may make one where it is read
// behind all of them; else that of the earlier one, over which it lies.
static bool is_in_order(const rows_window *w, uint32_t kernels, const rows_tiles *tiles,
                        rows_tile *t, uint32_t *fewer)
{
    const plan_phase *phases = w->phases + w->first;
    t->stays_inside = false;
    for (rows_tile *other = tiles->items; other <= t; other++) {
        if (rows_in_order(phases, tiles->items, other, t)) continue;
        if (t->stays_inside) return false;
        const uint32_t without =
            may_stay_inside(tiles, t) ? kernels_without_reader(w, kernels, t) : 0;
        if (without > *fewer) *fewer = without;
        if (without == kernels) t->stays_inside = true;
        else if (other == t || !mark_earlier(w, kernels, tiles, other)) return false;
        if (!rows_in_order(phases, tiles->items, other, t)) return false;
    }
    return true;
}

// Finds a way in which the tile, number `at`, has the shape and is in order; rather one in which
// its result may reach LX.
static bool find_way(const rows_window *w, const rows_shape *shape, rows_tiles *tiles,
                     uint32_t at, uint32_t *fewer)
{
    const uint32_t kernels = tiles->items[tiles->count - 1].kernel + 1;
    rows_tile *t = &tiles->items[at], inside;
    rows_tiles earlier = *tiles;
    earlier.count = at;
    bool found = false;
    for (uint32_t way = rows_first_way(shape, t); way < ROWS_WAYS; way++) {
        if (!rows_place_tile(shape, &earlier, way, t) || !loops_are_rows(tiles, t) ||
            !is_in_order(w, kernels, tiles, t, fewer))
            continue;
        if (!t->stays_inside) return true;
        if (!found) inside = *t;
        found = true;
    }
    if (found) *t = inside;
    return found;
}

// No lane of the tile's second runs leaves the row fusion of so many kernels.
static bool needs_first_runs_alone(const rows_window *w, uint32_t kernels, const rows_tile *t)
{
    if (t->role == ROWS_REDUCES) return t->rest_of_each && t->rest <= ROWS_RUN;
    if (t->half || t->role != ROWS_STREAMS) return true;
    return t->operand[0].place.space == ISA_SPACE_LX &&
           !rows_is_read(w, w->first + kernels - 1, t);
}

// Number of the first tile that needs second runs; all of them when none does.
static uint32_t first_whole(const rows_window *w, const rows_tiles *tiles)
{
    const uint32_t kernels = tiles->items[tiles->count - 1].kernel + 1;
    uint32_t n = 0;
    while (n < tiles->count && needs_first_runs_alone(w, kernels, &tiles->items[n])) n++;
    return n;
}

// Number of the first tile that has the first runs of sticks alone; all of them when none has.
static uint32_t first_half(const rows_tiles *tiles)
{
    uint32_t n = 0;
    while (n < tiles->count && !tiles->items[n].half) n++;
    return n;
}

bool rows_are_half(const rows_window *w, const rows_tiles *tiles)
{
    bool some = false;
    for (uint32_t n = 0; n < tiles->count; n++)
        some = some || tiles->items[n].half || tiles->items[n].role == ROWS_REDUCES;
    return some && first_whole(w, tiles) == tiles->count;
}

// Tiles of the first runs of sticks alone and tiles that need the second runs make no row fusion;
// kernels before the later one of both may.
static bool agree_on_runs(const rows_window *w, const rows_tiles *tiles, rows_failure *out_failed)
{
    const uint32_t half = first_half(tiles);
    const uint32_t whole = half < tiles->count ? first_whole(w, tiles) : tiles->count;
    if (whole == tiles->count) return true;
    const uint32_t kernel = tiles->items[whole > half ? whole : half].kernel;
    *out_failed = (rows_failure){kernel, kernel};
    return false;
}

bool rows_are_fusible(const rows_window *w, const rows_shape *shape, rows_tiles *tiles,
                      rows_failure *out_failed)
{
    *out_failed = (rows_failure){UINT32_MAX, 0};
    if (shape->rows < (tiles->items[0].outer ? 1 : 2) || shape->sticks == 0) return false;
    for (uint32_t n = 0; n < tiles->count; n++) {
        rows_tile *t = &tiles->items[n];
        *out_failed = (rows_failure){t->kernel, t->kernel};
        if (!find_way(w, shape, tiles, n, &out_failed->fewer)) return false;
        *out_failed = (rows_failure){UINT32_MAX, 0};
    }
    return agree_on_runs(w, tiles, out_failed) && rows_are_worth_fusing(w, shape, tiles);
}
