// SPDX-License-Identifier: Apache-2.0
//
// Fast mode's tiles as loops over their inner dims, and what they ask about overlaps. Internal to
// tile_*.c.
#ifndef CARD_RUNS_H
#define CARD_RUNS_H

#include "card/plan.h"
#include "card/simd/lanes.h"

// The dims around the inner `inner` ones are walked.
typedef struct {
    const plan_tile *tile;
    uint32_t outer_dims;
    int64_t index[ISA_MAX_DIMS];
    uint8_t *at[ISA_MAX_OPERANDS];          // element 0 of the inner dims
} runs;

// Sets no more than there is to walk: tiles of one run are many.
static inline void first_run(runs *r, const plan_tile *tile, uint8_t *const *address,
                             uint32_t inner)
{
    r->tile = tile;
    r->outer_dims = tile->dim_count > inner ? tile->dim_count - inner : 0;
    for (uint32_t d = 0; d < r->outer_dims; d++) r->index[d] = 0;
    for (uint32_t o = 0; o < tile->instruction->operand_count; o++) r->at[o] = address[o];
}

// What stands for an address may be a number (isa.def, COUNT): no arithmetic on a pointer.
static inline uint8_t *moved(uint8_t *address, int64_t bytes)
{
    return (uint8_t *)((uintptr_t)address + (uintptr_t)bytes);
}

static inline bool next_run(runs *r)
{
    const plan_tile *tile = r->tile;
    uint32_t operands = tile->instruction->operand_count;
    for (uint32_t d = r->outer_dims; d-- > 0;) {
        for (uint32_t o = 0; o < operands; o++) r->at[o] = moved(r->at[o], tile->stride[o][d]);
        if (++r->index[d] < tile->extent[d]) return true;
        const int64_t n = tile->extent[d];
        for (uint32_t o = 0; o < operands; o++) r->at[o] = moved(r->at[o], -n * tile->stride[o][d]);
        r->index[d] = 0;
    }
    return false;
}

// The innermost dim.
static inline int64_t run_length(const plan_tile *tile)
{
    return tile->extent[tile->dim_count - 1];
}

static inline int64_t run_stride(const plan_tile *tile, uint32_t operand)
{
    return tile->stride[operand][tile->dim_count - 1];
}

// The dims around it, `level` 1 next to it; of extent 1 where there is none.
static inline int64_t outer_extent(const plan_tile *tile, uint32_t level)
{
    return level < tile->dim_count ? tile->extent[tile->dim_count - 1 - level] : 1;
}

static inline int64_t outer_stride(const plan_tile *tile, uint32_t level, uint32_t operand)
{
    return level < tile->dim_count ? tile->stride[operand][tile->dim_count - 1 - level] : 0;
}

// Whether runs of the result, which are dense, are whole lines of the host's caches that go past
// them.
static inline bool runs_stream(const plan_tile *tile, const uint8_t *result)
{
    enum { LINE = 64 };
    bool streams = tile->streams && (uintptr_t)result % LINE == 0;
    for (uint32_t d = 0; streams && d + 1 < tile->dim_count; d++)
        streams = tile->stride[0][d] % LINE == 0;
    return streams && run_length(tile) * run_stride(tile, 0) % LINE == 0;
}

// The ranges of two operands do not overlap.
static inline bool runs_disjoint(const plan_tile *tile, uint8_t *const *address, uint32_t a,
                                 uint32_t b)
{
    uintptr_t at_a = (uintptr_t)address[a], at_b = (uintptr_t)address[b];
    byte_range x = tile->span[a], y = tile->span[b];
    return at_a + (uintptr_t)x.high <= at_b + (uintptr_t)y.low ||
           at_b + (uintptr_t)y.high <= at_a + (uintptr_t)x.low;
}

// What an operand accumulates, over dims in which it has stride 0, lies in places of its own.
bool runs_accumulators_apart(const plan_tile *tile, uint32_t operand);

// The executor of an instruction kind for the tile's formats and strides.
plan_executor tile_vector(plan_tile *tile);
plan_executor tile_codes(const plan_tile *tile);     // `run` null: it has none
plan_executor tile_integers(const plan_tile *tile);  // `run` null: it has none
plan_executor tile_reduce(plan_tile *tile);
plan_executor tile_reduce_integers(const plan_tile *tile);
plan_executor tile_fold(const plan_tile *tile);
plan_executor tile_copy(plan_tile *tile);
plan_executor tile_count(const plan_tile *tile);
plan_executor tile_gather(const plan_tile *tile);
plan_executor tile_accumulate(const plan_tile *tile);
plan_executor tile_rank(const plan_tile *tile);
plan_executor tile_ranked(const plan_tile *tile);
plan_run tile_scan;
// FOLD of int32 side by side, as many as a power of two.
void tile_fold_integers(opfunc op, uint8_t *values, size_t count);

// `count` elements of `bytes` bytes, each operand's `stride` bytes apart.
void copy_elements(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
                   int64_t count, uint32_t bytes);

#endif
