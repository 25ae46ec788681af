// SPDX-License-Identifier: Apache-2.0
//
// The tiles of a kernel, as few as say what it does.
#ifndef CARD_COLLECT_TILES_H
#define CARD_COLLECT_TILES_H

#include "card/row_fusion/row_tile.h"

// Adds the tiles of a kernel; *out_good is false when there are none, or some that a row fusion
// cannot have. Several of them must stand in the same loops.
SPYRE_MUST_CHECK spyre_status rows_collect(const plan_kernel *kernel, arena *scratch,
                                           rows_tiles *out, bool *out_good);

// --- Peeled iterations (peeled_iterations.c)

// The tile is what is left of a dim of the last one, of those from tile `own` on, and becomes part
// of it.
SPYRE_MUST_CHECK spyre_status rows_join_rest_of_dim(arena *scratch, rows_tiles *tiles, uint32_t own,
                                                    const rows_tile *t, bool *out_joined);

// Of the tiles from `first` on, the latter half may be the iteration behind the loop of the former,
// or behind loops that are one: it becomes part of that loop.
SPYRE_MUST_CHECK spyre_status rows_join_last_iteration(arena *scratch, rows_tiles *tiles,
                                                       uint32_t first);

// --- Partial sticks (join_partial_sticks.c)

// A reduction that is the rest of one before it, from tile `own` on, becomes part of it. Others may
// stand between them: a sum and a sum of squares take turns.
SPYRE_MUST_CHECK spyre_status rows_join_reduction(arena *scratch, const isa_kernel *kernel,
                                                  rows_tiles *tiles, uint32_t own,
                                                  const rows_tile *t, bool *out_joined);

// A reduction of the first lanes of every stick gets all of them, and a note of how many count; so
// does a vector over the first run of every stick.
SPYRE_MUST_CHECK spyre_status rows_widen_sticks(arena *scratch, const isa_kernel *kernel,
                                                rows_tile *t);

#endif
