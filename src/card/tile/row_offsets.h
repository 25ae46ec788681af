// SPDX-License-Identifier: Apache-2.0
//
// Offsets of the rows that the elements of a run name, each its own. Internal to tile_gather.c and
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

#endif
