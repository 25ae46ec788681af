// SPDX-License-Identifier: Apache-2.0
#include "ktir/interpret/reader_sets.h"

#include <string.h>

static spyre_status intern(readers *r, const uint32_t *clocks, uint32_t *out_set)
{
    size_t bytes = r->tiles * sizeof *clocks;
    uint32_t fresh = r->sets.count;
    TRY(map_bytes_intern(r->memory, &r->by_clocks, clocks, bytes, fresh, out_set));
    if (*out_set != fresh) return NULL;
    uint32_t *copy = ARENA_NEW(r->memory, uint32_t, r->tiles);
    TRY_ALLOC(copy);
    memcpy(copy, clocks, bytes);
    return VEC_PUSH(r->memory, &r->sets, copy);
}

spyre_status readers_begin(readers *r, arena *memory, uint32_t tiles)
{
    uint32_t set;
    *r = (readers){.memory = memory, .tiles = tiles};
    uint32_t *none = ARENA_NEW(memory, uint32_t, tiles);
    TRY_ALLOC(none);
    memset(none, 0, tiles * sizeof *none);
    return intern(r, none, &set);
}

spyre_status readers_add(readers *r, uint32_t set, uint32_t tile, uint32_t clock,
                         uint32_t *out_set)
{
    const readers_key key = {set, tile, clock};
    *out_set = r->last_set;
    if (memcmp(&key, &r->last, sizeof key) == 0) return NULL;
    if (!map_bytes_get(&r->by_key, &key, sizeof key, out_set)) {
        uint32_t *clocks = ARENA_NEW(r->memory, uint32_t, r->tiles);
        TRY_ALLOC(clocks);
        memcpy(clocks, r->sets.items[set], r->tiles * sizeof *clocks);
        clocks[tile] = clock;
        TRY(intern(r, clocks, out_set));
        TRY(map_bytes_put(r->memory, &r->by_key, &key, sizeof key, *out_set));
    }
    r->last = key;
    r->last_set = *out_set;
    return NULL;
}

uint32_t readers_ahead(const readers *r, uint32_t set, uint32_t tile, const uint32_t *clock)
{
    const uint32_t *read = r->sets.items[set];
    for (uint32_t n = 0; set && n < r->tiles; n++)
        if (n != tile && clock[n] < read[n]) return n;
    return UINT32_MAX;
}
