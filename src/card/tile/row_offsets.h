// SPDX-License-Identifier: Apache-2.0
//
// Offsets of the rows that the elements of a run name, each its own. Internal to tile_gather*.c and
// tile_accumulate.c.
#ifndef CARD_ROW_OFFSETS_H
#define CARD_ROW_OFFSETS_H

#include "card/plan.h"

enum { ROW_OFFSETS = 1024 };

// Of one run, or of a part of it.
typedef struct {
    const uint8_t *of;                      // the index that they were computed from; null: none
    int64_t count;                          // at most ROW_OFFSETS
    int64_t offset[ROW_OFFSETS];
} row_offsets;

// Of `count` elements from the index at `rows` on; nothing to do where they are known.
void row_offsets_find(row_offsets *o, const plan_tile *tile, const uint8_t *rows, int64_t count);

// Tells the host of a stick that is read or written soon.
static inline void announce(const uint8_t *row)
{
    __builtin_prefetch(row);
    __builtin_prefetch(row + SPYRE_STICK_BYTES / 2);
}

// Whether a GATHER of elements copies whole lines of its table first, and one that does.
bool tile_gathers_lines(const plan_tile *tile);
void tile_gather_lines(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch);

#endif
