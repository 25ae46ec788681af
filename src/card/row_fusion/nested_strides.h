// SPDX-License-Identifier: Apache-2.0
//
// Nested strides: where the rows, or the sticks, of an operand lie. Index i has a digit for each
// level, innermost first, and lies at the sum of digits times strides. A value of each of 64
// channels, which have three rows each, in two batches:
//
//     [3, stride 0] [64, stride 128] [2, stride 0]      rows 0..2 at 0, rows 3..5 at 128, ..
//
// Neighbouring levels that make one stride are one, so nests of the same places are the same bytes.
#ifndef CARD_NESTED_STRIDES_H
#define CARD_NESTED_STRIDES_H

#include <stddef.h>

#include "card/footprint/levels.h"
#include "card/footprint/range.h"

enum { ROWS_MOST_LEVELS = 6 };

typedef struct {
    uint32_t levels;
    uint32_t extent[ROWS_MOST_LEVELS];      // above 1
    int64_t stride[ROWS_MOST_LEVELS];       // 0 of a level that there is not
} rows_nest;

// One more level around; false when there is no room for it.
bool rows_nest_add(rows_nest *n, int64_t extent, int64_t stride);

// So many indices at one stride.
rows_nest rows_evenly(uint32_t count, int64_t stride);

bool rows_nests_equal(const rows_nest *a, const rows_nest *b);

// All indices lie at one place.
bool rows_nest_stands(const rows_nest *n);

// There is one stride, rows_nest_stride(); or it begins again at 0 after so many indices.
static inline bool rows_nest_is_even(const rows_nest *n)
{
    return n->levels <= 1;
}

bool rows_nest_repeats(const rows_nest *n);

// From an index to the next, inside the innermost level.
static inline int64_t rows_nest_stride(const rows_nest *n)
{
    return n->stride[0];
}

// The next two functions where there are several levels.
int64_t rows_nest_sum(const rows_nest *n, size_t index);
size_t rows_nest_left(const rows_nest *n, size_t index, size_t count);

// Where an index lies; divides where there are several levels.
static inline int64_t rows_nest_at(const rows_nest *n, size_t index)
{
    return rows_nest_is_even(n) ? (int64_t)index * n->stride[0] : rows_nest_sum(n, index);
}

// How many indices from this one on lie at rows_nest_stride(), of so many.
static inline size_t rows_nest_run(const rows_nest *n, size_t index, size_t count)
{
    return rows_nest_is_even(n) ? count : rows_nest_left(n, index, count);
}

// Blocks of so many indices lie alike.
bool rows_nest_has_blocks(const rows_nest *n, size_t block);

// Places of `count` indices from `first` on, relative to that of `first`.
void rows_nest_list(const rows_nest *n, size_t first, size_t count, int64_t *out);

// The range over all indices.
void rows_nest_reach(const rows_nest *n, byte_range *range);

// The levels as one more dim each, at most ROWS_MOST_LEVELS; returns how many there are then.
uint32_t rows_nest_dims(const rows_nest *n, uint32_t dims, int64_t *extent, int64_t *stride);

#endif
