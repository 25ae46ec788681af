// SPDX-License-Identifier: Apache-2.0
//
// Tiles of ops that take the elements along reduced dims in ascending order. The order restricts
// them: of the reduced dims only one may be cut, those that run faster must be whole and those that
// run slower advance one index (or stick) at a time. A last part of a stick counts as a cut.
// Internal.
#ifndef BACK_REDUCED_TILE_H
#define BACK_REDUCED_TILE_H

#include "back/emit.h"
#include "back/tile_extents.h"
#include "back/tile_loops.h"

// Reduced dims in the order of additions; only the last of them may be cut. True when none is.
bool tile_grow_reduced(const nest *n, const tile_limits *limits, int64_t *tile);

// Those of `dims` that are not reduced, the last one first.
void tile_grow_kept(const nest *n, const tile_limits *limits, const uint8_t *dims, uint32_t count,
                    int64_t *tile);

// Loops over what a tile leaves: of `dims`, the kept ones, inside of them the reduced dims.
void tile_loops_add_reduced(tile_loops *kept, tile_loops *reduced, const uint8_t *dims,
                            uint32_t count, const int64_t *tile);

// Axes along which the running value moves, then those along which only the elements do, in their
// order; the densest kept axis comes last, because that is where neighbours are independent.
place_order reduced_order(const place *running, const place *elements, const place_axes *axes);

// Adds the elements that a box has along the reduced dims to a position; `taken` is a cell for
// their number.
SPYRE_MUST_CHECK spyre_status reduced_count_taken(emitter *e, const nest *n, const box *b,
                                                  const lx_region *position,
                                                  const lx_region *taken);

#endif
