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

#include "card/footprint/byte_set.h"
#include "card/footprint/range.h"

enum { NESTED_STRIDES_MOST_LEVELS = 6 };

typedef struct {
    uint32_t levels;
    uint32_t extent[NESTED_STRIDES_MOST_LEVELS];      // above 1
    int64_t stride[NESTED_STRIDES_MOST_LEVELS];       // 0 of a level that there is not
} nested_strides;

// One more level around; false when there is no room for it.
bool nested_strides_add(nested_strides *n, int64_t extent, int64_t stride);

// So many indices at one stride.
nested_strides nested_strides_even(uint32_t count, int64_t stride);

bool nested_strides_equal(const nested_strides *a, const nested_strides *b);

// All indices lie at one place.
bool nested_strides_stands(const nested_strides *n);

// There is one stride, nested_strides_stride(); or it begins again at 0 after so many indices.
static inline bool nested_strides_is_even(const nested_strides *n)
{
    return n->levels <= 1;
}

bool nested_strides_repeats(const nested_strides *n);

// From an index to the next, inside the innermost level.
static inline int64_t nested_strides_stride(const nested_strides *n)
{
    return n->stride[0];
}

// The next two functions where there are several levels.
int64_t nested_strides_sum(const nested_strides *n, size_t index);
size_t nested_strides_left(const nested_strides *n, size_t index, size_t count);

// Where an index lies; divides where there are several levels.
static inline int64_t nested_strides_at(const nested_strides *n, size_t index)
{
    return nested_strides_is_even(n) ? (int64_t)index * n->stride[0] : nested_strides_sum(n, index);
}

// How many indices from this one on lie at nested_strides_stride(), of so many.
static inline size_t nested_strides_run(const nested_strides *n, size_t index, size_t count)
{
    return nested_strides_is_even(n) ? count : nested_strides_left(n, index, count);
}

// Blocks of so many indices lie alike.
bool nested_strides_has_blocks(const nested_strides *n, size_t block);

// Places of `count` indices from `first` on, relative to that of `first`.
void nested_strides_list(const nested_strides *n, size_t first, size_t count, int64_t *out);

// The range over all indices.
void nested_strides_reach(const nested_strides *n, byte_range *range);

// The levels as one more dim each, at most NESTED_STRIDES_MOST_LEVELS; returns how many there are
// then.
uint32_t nested_strides_dims(const nested_strides *n, uint32_t dims, int64_t *extent,
                             int64_t *stride);

#endif
