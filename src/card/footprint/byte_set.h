// SPDX-License-Identifier: Apache-2.0
//
// The set of bytes that an operand touches over dims and loops, in whatever order: a contiguous
// run, repeated in nested levels.
#ifndef CARD_BYTE_SET_H
#define CARD_BYTE_SET_H

#include "isa/isa.h"

// Of dims, of loops, and of rows that an index names: rows, and those that share a stick.
enum { BYTE_SET_LEVELS = ISA_MAX_DIMS + ISA_MAX_LOOPS + 2 };

// Runs of `bytes` bytes, the first one `low` bytes behind element 0 of the operand.
typedef struct {
    int64_t low, bytes;
    uint32_t count;
    int64_t stride[BYTE_SET_LEVELS], extent[BYTE_SET_LEVELS];   // rising strides above 0
} byte_set;

// One more repetition around. The farthest byte fits int64_t.
void byte_set_add(byte_set *l, int64_t stride, int64_t extent);

// Levels that leave no gaps become one: with the run below them, or with each other.
void byte_set_merge(byte_set *l);

// True when runs of `bytes` bytes at all indices of the dims lie apart, because each stride clears
// all shorter ones.
bool byte_runs_lie_apart(uint32_t dims, const int64_t *extent, const int64_t *stride,
                         int64_t bytes);

// Points of `width` numbers each: how many blocks of `block` points lie at the distance of the
// first two from each other, so many that all points are a multiple of them. `points` is one of
// `block`.
uint32_t points_count_blocks(uint32_t points, uint32_t width, const int64_t *of, uint32_t block);

#endif
