// SPDX-License-Identifier: Apache-2.0
//
// Who has read a byte since it was written: sets of compute tiles with the time, by the clock of
// each, at which it read last. Few sets occur, so a byte has the number of one; 0 is the empty set.
// All readers count: a write must be behind each of them.
#ifndef KTIR_READER_SETS_H
#define KTIR_READER_SETS_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"

typedef struct {
    uint32_t set, tile, clock;
} readers_key;

typedef struct {
    arena *memory;
    uint32_t tiles;
    VEC(uint32_t *) sets;               // [set][tiles]: a clock, or 0
    map_bytes by_clocks, by_key;
    readers_key last;                   // the key asked for last, and what it gave
    uint32_t last_set;
} readers;

// Of `tiles` compute tiles; empty but for the empty set.
SPYRE_MUST_CHECK spyre_status readers_begin(readers *r, arena *memory, uint32_t tiles);

// The set with `tile`, which reads at `clock` >= 1, in the place of its earlier read.
SPYRE_MUST_CHECK spyre_status readers_add(readers *r, uint32_t set, uint32_t tile, uint32_t clock,
                                          uint32_t *out_set);

// A reader other than `tile` that it is not behind, by what `clock` knows of all; UINT32_MAX: none.
uint32_t readers_ahead(const readers *r, uint32_t set, uint32_t tile, const uint32_t *clock);

#endif
