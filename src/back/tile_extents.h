// SPDX-License-Identifier: Apache-2.0
//
// Tile extents: as large as the share of LX allows, growing from the dims that are contiguous in
// memory outwards. Internal.
#ifndef BACK_TILE_EXTENTS_H
#define BACK_TILE_EXTENTS_H

#include "back/emit.h"

// Bytes of LX that tiles of these extents need.
typedef int64_t tile_bytes(const void *context, const int64_t *tile);

typedef struct {
    int64_t budget;
    tile_bytes *bytes;
    const void *context;
} tile_limits;

// The smallest tile: one stick of every dim that has sticks, one index of the others.
void tile_smallest(const nest *n, int64_t *out_tile);

// SPYRE_UNSUPPORTED when not even this tile fits.
SPYRE_MUST_CHECK spyre_status tile_check(const tile_limits *limits, const int64_t *tile);

// Makes tile[dim] as large as the limits allow, a multiple of its sticks; prefers an extent that
// divides the dim. True when it covers the whole dim.
bool tile_grow(const nest *n, const tile_limits *limits, uint32_t dim, int64_t *tile);

// The same for dims in turn, the last of `dims` first.
void tile_grow_all(const nest *n, const tile_limits *limits, const uint8_t *dims, uint32_t count,
                   int64_t *tile);

#endif
