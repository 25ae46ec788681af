// SPDX-License-Identifier: Apache-2.0
//
// Ranges of bytes, [low, high), of LX, of an argument, or relative to an operand's element 0.
#ifndef CARD_RANGE_H
#define CARD_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef struct {
    int64_t low, high;
} byte_range;
typedef VEC(byte_range) byte_ranges;

// What range_add() can begin with: holds nothing.
#define RANGE_NONE ((byte_range){INT64_MAX, INT64_MIN})

static inline bool ranges_overlap(byte_range a, byte_range b)
{
    return a.low < b.high && b.low < a.high;
}

static inline bool range_covers(byte_range a, byte_range b)
{
    return a.low <= b.low && b.high <= a.high;
}

static inline byte_range range_shifted(byte_range r, int64_t by)
{
    return (byte_range){r.low + by, r.high + by};
}

// The least range that holds both.
static inline void range_add(byte_range *r, byte_range other)
{
    if (other.low < r->low) r->low = other.low;
    if (other.high > r->high) r->high = other.high;
}

// The range over `extent` repetitions, `stride` bytes apart.
static inline void range_repeat(byte_range *r, int64_t stride, int64_t extent)
{
    int64_t reach = stride * (extent - 1);
    if (reach < 0) r->low += reach;
    else r->high += reach;
}

#endif
