// SPDX-License-Identifier: Apache-2.0
#include "back/tile_extents.h"

#include "base/integer.h"

void tile_smallest(const nest *n, int64_t *out_tile)
{
    for (uint32_t d = 0; d < BUNDLE_MAX_DIMS; d++) {
        out_tile[d] = 1;
        if (d >= n->dim_count) continue;
        int64_t granule = nest_granule(n, d);
        out_tile[d] = granule < n->most[d] ? granule : n->most[d];
    }
}

static bool fits(const tile_limits *limits, const int64_t *tile)
{
    return limits->bytes(limits->context, tile) <= limits->budget;
}

spyre_status tile_check(const tile_limits *limits, const int64_t *tile)
{
    if (fits(limits, tile)) return NULL;
    return status_new(
        SPYRE_UNSUPPORTED, "the smallest tile needs %lld bytes of LX, the back-end has %lld",
        (long long)limits->bytes(limits->context, tile), (long long)limits->budget);
}

// Without code for a remainder when a divisor is near; otherwise tiles of about the same size.
static int64_t balance(int64_t size, int64_t largest, int64_t granule)
{
    for (int64_t tile = largest; tile * 2 > largest; tile -= granule)
        if (size % tile == 0) return tile;
    int64_t count = divide_up(size, largest);
    int64_t even = divide_up(size, count);
    return round_up(even, granule);
}

bool tile_grow(const nest *n, const tile_limits *limits, uint32_t dim, int64_t *tile)
{
    int64_t size = n->most[dim], granule = nest_granule(n, dim), before = tile[dim];
    tile[dim] = size;
    if (fits(limits, tile)) return true;
    int64_t low = 1, high = (size - 1) / granule; // in granules; `low` fits
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        tile[dim] = middle * granule;
        if (fits(limits, tile))
            low = middle;
        else
            high = middle - 1;
    }
    tile[dim] = before;
    if (low * granule > before)
        tile[dim] = n->unit[dim] ? nest_divisor(n, dim, low * granule)
                                 : balance(size, low * granule, granule);
    return tile[dim] == size;
}

void tile_grow_all(const nest *n, const tile_limits *limits, const uint8_t *dims, uint32_t count,
                   int64_t *tile)
{
    for (uint32_t i = count; i-- > 0;) tile_grow(n, limits, dims[i], tile);
}
