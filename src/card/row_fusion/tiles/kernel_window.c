// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/tiles/kernel_window.h"

#include <string.h>

#include "card/row_fusion/cores/joined_cores.h"
#include "card/row_fusion/tiles/collect_tiles.h"

void rows_window_begin(rows_window *w, const plan_phase *phases, uint32_t count, bool joined)
{
    w->phases = phases;
    w->count = count;
    w->joined = joined;
    w->first = w->end = w->gone = w->all.count = 0;
    w->ended = false;
}

// --- Collecting

static spyre_status map_messages(rows_window *w, const plan_kernel *kernel, bool *out_good)
{
    rows_messages *map = ARENA_NEW(w->scratch, rows_messages, 1);
    TRY_ALLOC(map);
    w->map[w->end % ROWS_MOST_KERNELS] = map;
    return rows_map_messages(w->scratch, kernel->messages, map, out_good);
}

static spyre_status collect_joined(rows_window *w, const plan_kernel *kernel, bool *out_good)
{
    const uint32_t own = w->all.count;
    *out_good = true;
    if (kernel->sends_later) return NULL;
    if (kernel->messages) return map_messages(w, kernel, out_good);
    TRY(rows_collect(kernel, w->scratch, &w->all, out_good));
    return *out_good ? rows_join_cores(kernel->source, w->scratch, own, &w->all, out_good)
                     : NULL;
}

// Kernels of a core's own run on the same cores.
static spyre_status collect_own(rows_window *w, const plan_kernel *kernel, bool *out_good)
{
    *out_good = w->end == w->first ||
                w->phases[w->end - 1].kernel->source->active_cores == kernel->source->active_cores;
    if (!*out_good) return NULL;
    return rows_collect(kernel, w->scratch, &w->all, out_good);
}

static spyre_status collect_next(rows_window *w)
{
    const plan_kernel *kernel = w->phases[w->end].kernel;
    const uint32_t own = w->all.count, at = w->end % ROWS_MOST_KERNELS;
    bool good;
    w->map[at] = NULL;
    TRY(w->joined ? collect_joined(w, kernel, &good) : collect_own(w, kernel, &good));
    if (!good) w->all.count = own;
    w->tiles[at] = w->all.count - own;
    w->ended = !good;
    w->end += good;
    return NULL;
}

// --- Moving

static void drop_before(rows_window *w, uint32_t first)
{
    for (; w->first < first && w->first < w->end; w->first++)
        w->gone += w->tiles[w->first % ROWS_MOST_KERNELS];
    if (w->first == w->end) {
        rows_window_begin(w, w->phases, w->count, w->joined);
        w->first = w->end = first;
    }
    if (w->gone <= w->all.count / 2) return;
    w->all.count -= w->gone;
    memmove(w->all.items, w->all.items + w->gone, w->all.count * sizeof *w->all.items);
    w->gone = 0;
}

// True when all that kernel k reads has one source, and its messages have one map.
static bool follow_sources(rows_window *w, uint32_t k, uint32_t own, rows_tiles *tiles)
{
    const plan_kernel *kernel = w->phases[k].kernel;
    rows_messages *map = w->map[k % ROWS_MOST_KERNELS];
    if (map) return rows_receive(&w->sources, map, kernel->source->active_cores, k - w->first);
    if (!rows_find_sources(&w->sources, own, tiles)) return false;
    if (!kernel->sends_later)
        rows_replace(&w->sources, kernel, &w->lx->items[kernel->order].replaced);
    return true;
}

spyre_status rows_window_move(rows_window *w, uint32_t first, rows_tiles *out,
                              uint32_t *out_kernels)
{
    drop_before(w, first);
    while (!w->ended && w->end < w->count && w->end - first < ROWS_MOST_KERNELS)
        TRY(collect_next(w));
    *out = (rows_tiles){.items = w->gone ? w->all.items + w->gone : w->all.items};
    *out_kernels = 0;
    if (w->sources.count) w->sources = (rows_sources){0};
    for (uint32_t k = first; k < w->end; k++, ++*out_kernels) {
        const uint32_t own = out->count, count = w->tiles[k % ROWS_MOST_KERNELS];
        if (own + count > ROWS_MOST_STEPS) return NULL;
        out->count += count;
        for (uint32_t n = own; n < out->count; n++) out->items[n].kernel = k - first;
        if (w->joined && !follow_sources(w, k, own, out)) return NULL;
    }
    return NULL;
}
