// SPDX-License-Identifier: Apache-2.0
#include "back/reduced_tile.h"

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

void tile_loops_add_reduced(tile_loops *kept, tile_loops *reduced, const uint8_t *dims,
                            uint32_t count, const int64_t *tile)
{
    for (uint32_t i = 0; i < count; i++)
        if (!kept->n->reduced[dims[i]]) tile_loops_add(kept, dims[i], tile[dims[i]]);
    for (uint32_t d = 0; d < reduced->n->dim_count; d++)
        if (reduced->n->reduced[d]) tile_loops_add(reduced, d, tile[d]);
}

place_order reduced_order(const place *running, const place *elements, const place_axes *axes)
{
    place_order order = {0}, kept = place_sorted(running, axes);
    for (uint32_t i = 0; i + 1 < kept.count; i++) order.axis[order.count++] = kept.axis[i];
    for (uint32_t a = 0; a < axes->count; a++)
        if (running->stride[a] == 0 && elements->stride[a]) order.axis[order.count++] = (uint8_t)a;
    if (kept.count) order.axis[order.count++] = kept.axis[kept.count - 1];
    return order;
}

spyre_status reduced_count_taken(emitter *e, const nest *n, const box *b,
                                 const lx_region *position, const lx_region *taken)
{
    const place_axes none = {0};
    int64_t elements = 1;
    for (uint32_t d = 0; d < n->dim_count; d++)
        if (n->reduced[d]) elements *= b->extent[d];
    place at = place_cell(position, SPYRE_FORMAT_IEEE_INT32);
    place more = place_cell(taken, SPYRE_FORMAT_IEEE_INT32);
    TRY(emit_fill(e, &none, &more, (float)elements));
    return emit_vector(e, OPFUNC_ADD, NULL, &none, (const place *const[]){&at, &at, &more}, 3);
}
