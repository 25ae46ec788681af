// SPDX-License-Identifier: Apache-2.0
//
// Tiles of windows that overlap. A loop over windows and one over their taps walk one dim of the
// input: 28 windows of 7 taps touch 34 places of a line, 196 times. A tile has each place once, and
// both loops step through it as they do at home:
//
//     home    windows [28, 128], taps [7, 128]
//     load    places [34, 128]
//     tile    windows [28, 128], taps [7, 128], a line of 34 places
#include "back/place.h"

#include "base/integer.h"
#include "bundle/step_facts.h"

// Places that windows and taps have together, `unit` bytes apart at home; 0 where there are no
// fewer than both loops have indices.
static int64_t places_of(int64_t windows, int64_t window, int64_t taps, int64_t tap,
                         int64_t *out_unit)
{
    if (windows < 2 || taps < 2 || window <= 0 || tap <= 0) return 0;
    *out_unit = common_divisor(window, tap);
    const int64_t places = ((windows - 1) * window + (taps - 1) * tap) / *out_unit + 1;
    return places < windows * taps ? places : 0;
}

static bool has_windows(const nest *n, uint32_t operand)
{
    return n->step->window_count && operand == n->step->inputs[0] &&
           n->operand[operand].tensor->format != SPYRE_FORMAT_SENINT4;
}

int64_t place_tile_bytes(const nest *n, uint32_t operand, const int64_t *tile)
{
    const nest_operand *o = &n->operand[operand];
    const int64_t *stride = o->stride;
    int64_t bytes = o->element * o->lanes, unit;
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (stride[d]) bytes *= tile[d];
    for (uint32_t i = 0; i < n->step->window_count && has_windows(n, operand); i++) {
        const bundle_window *w = &n->step->windows[i];
        const int64_t places = places_of(tile[w->dim], stride[w->dim], tile[w->kernel],
                                         stride[w->kernel], &unit);
        if (places) bytes = bytes / (tile[w->dim] * tile[w->kernel]) * places;
    }
    return o->tensor->format == SPYRE_FORMAT_SENINT4 ? (bytes + 1) / 2 : bytes;
}

// The axis of a dim without sticks; `count` where the box has one index of it.
static uint32_t axis_of(const place_axes *axes, uint32_t dim)
{
    uint32_t a = 0;
    while (a < axes->count && axes->axis[a].dim != dim) a++;
    return a;
}

// Of the axes over windows and taps, the latter has the places of both, the former one.
typedef struct {
    uint32_t window, tap;
    int64_t unit;
} shared_axis;

static uint32_t share_axes(const nest *n, place_axes *axes, uint32_t operand, place *home,
                           shared_axis *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->step->window_count && has_windows(n, operand); i++) {
        const bundle_window *w = &n->step->windows[i];
        shared_axis s = {axis_of(axes, w->dim), axis_of(axes, w->kernel), 0};
        if (s.window == axes->count || s.tap == axes->count) continue;
        place_axis *window = &axes->axis[s.window], *tap = &axes->axis[s.tap];
        const int64_t places = places_of(window->extent, home->stride[s.window], tap->extent,
                                         home->stride[s.tap], &s.unit);
        if (!places) continue;
        tap->extent = places;
        window->extent = 1;
        home->stride[s.window] = 0;
        home->stride[s.tap] = s.unit;
        out[count++] = s;
    }
    return count;
}

static place_copy copy_of(const nest *n, const box *b, const place_axes *axes, uint32_t operand,
                          const lx_region *region, shared_axis *shared, uint32_t *out_count)
{
    place_copy c = {.axes = *axes, .home = place_home(n, b, axes, operand)};
    *out_count = share_axes(n, &c.axes, operand, &c.home, shared);
    const place_order order = place_sorted(&c.home, &c.axes);
    c.tile = place_dense(b, &c.axes, &order, c.home.operand.format, n->operand[operand].element,
                         region);
    return c;
}

place_copy place_of_load(const nest *n, const box *b, const place_axes *axes, uint32_t operand,
                         const lx_region *region)
{
    shared_axis shared[BUNDLE_MAX_WINDOWS];
    uint32_t count;
    return copy_of(n, b, axes, operand, region, shared, &count);
}

place place_tile(const nest *n, const box *b, const place_axes *axes, uint32_t operand,
                 const lx_region *region)
{
    shared_axis shared[BUNDLE_MAX_WINDOWS];
    uint32_t count;
    const place home = place_home(n, b, axes, operand);
    place tile = copy_of(n, b, axes, operand, region, shared, &count).tile;
    for (uint32_t i = 0; i < count; i++) {
        const shared_axis *s = &shared[i];
        const int64_t step = tile.stride[s->tap];
        tile.stride[s->window] = step * (home.stride[s->window] / s->unit);
        tile.stride[s->tap] = step * (home.stride[s->tap] / s->unit);
    }
    return tile;
}
