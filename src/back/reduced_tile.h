// SPDX-License-Identifier: Apache-2.0
//
// Tiles of ops that take the elements along reduced dims in ascending order. The order restricts
// them: of the reduced dims only one may be cut, those that run faster must be whole and those that
// run slower advance one index (or stick) at a time. A last part of a stick counts as a cut.
// Internal.
#ifndef BACK_REDUCED_TILE_H
#define BACK_REDUCED_TILE_H

#include "back/tile.h"

// Reduced dims in the order of additions; only the last of them may be cut. True when none is.
bool tile_grow_reduced(const nest *n, const tile_limits *limits, int64_t *tile);

// Those of `dims` that are not reduced, the last one first.
void tile_grow_kept(const nest *n, const tile_limits *limits, const uint8_t *dims, uint32_t count,
                    int64_t *tile);

#endif
