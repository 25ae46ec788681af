// SPDX-License-Identifier: Apache-2.0
#include "back/reduced_tile.h"

#include "back/tile_loops.h"

static bool is_cut(const nest *n, uint32_t dim, int64_t tile)
{
    tile_loops probe = {.n = n};
    tile_loops_add(&probe, dim, tile);
    return probe.levels.count > 0;
}

bool tile_grow_reduced(const nest *n, const tile_limits *limits, int64_t *tile)
{
    for (uint32_t d = n->dim_count; d-- > 0;) {
        if (!n->reduced[d] || n->most[d] == 1) continue;
        tile_grow(n, limits, d, tile);
        if (is_cut(n, d, tile[d])) return false;
    }
    return true;
}

void tile_grow_kept(const nest *n, const tile_limits *limits, const uint8_t *dims, uint32_t count,
                    int64_t *tile)
{
    for (uint32_t i = count; i-- > 0;)
        if (!n->reduced[dims[i]]) tile_grow(n, limits, dims[i], tile);
}
