// SPDX-License-Identifier: Apache-2.0
//
// What is composed, and whether it pays: which tiles read elsewhere, by the prices of
// composed_times.c, and which copies nothing reads then (dead_copies.c). Tile by tile the choice
// would be wrong: a read that itself takes longer may let several copies be left out.
#include "card/pass/compose_copies/compose.h"

#define WORTH 0.95                          // of the time before, at most

// Chooses what reads elsewhere in at most `limit` times a tile's time, and marks copies as dropped
// whose results nothing reads then. The time of what is left.
static spyre_status choose_within(composer *c, double limit, double *out_ns)
{
    TRY(compose_begin_needed(c));
    *out_ns = 0;
    for (uint32_t n = c->t->loaded->phases.count; n-- > 0;) {
        const plan_kernel *kernel = c->t->loaded->phases.items[n].kernel;
        composed_kernel *k = &c->kernels[n];
        if (kernel && !k->kernel) TRY(compose_need_of_code(c, kernel));
        k->changed = false;
        for (uint32_t m = k->kernel ? k->tiles.count : 0; m-- > 0;) {
            composed_tile *tile = &k->tiles.items[m];
            tile->elsewhere = tile->instead.count && tile->instead_ns <= limit * tile->ns;
            compose_need_of_tile(c, k, tile);
            k->changed = k->changed || tile->dropped || tile->elsewhere;
            if (!tile->dropped) *out_ns += tile->elsewhere ? tile->instead_ns : tile->ns;
        }
    }
    return NULL;
}

// Of all tiles; 0 where none may read elsewhere.
static double time_before(const composer *c)
{
    double ns = 0;
    bool any = false;
    for (uint32_t n = 0; n < c->t->loaded->phases.count; n++) {
        const composed_kernel *k = &c->kernels[n];
        for (uint32_t m = 0; k->kernel && m < k->tiles.count; m++) {
            ns += k->tiles.items[m].ns;
            any = any || k->tiles.items[m].instead.count;
        }
    }
    return any ? ns : 0;
}

// Reads elsewhere by how much longer each may take, where that leaves least in all: one that does
// may let several copies be left out, or none.
spyre_status compose_choose(composer *c, bool *out_any)
{
    static const double limits[] = {1.2, 4, 1e9};
    double best = WORTH * time_before(c), ns, limit = 0;
    for (uint32_t n = 0; n < sizeof limits / sizeof *limits && best > 0; n++) {
        TRY(choose_within(c, limits[n], &ns));
        if (ns > best) continue;
        best = WORTH * ns;
        limit = limits[n];
    }
    *out_any = limit > 0;
    return *out_any ? choose_within(c, limit, &ns) : NULL;
}
