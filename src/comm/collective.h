// SPDX-License-Identifier: Apache-2.0
//
// One collective while it is executed. Internal to collective.c, gather_scatter.c and
// reduction_algorithms.c.
//
// Data that are too large to lie beside a header go through staging by a pipeline: in step t chunk
// k is in stage t - k, and all ranks meet between two steps. So what a rank writes in one stage the
// others read in the next one, and work on neighbouring chunks fills the time between meetings.
#ifndef COMM_COLLECTIVE_H
#define COMM_COLLECTIVE_H

#include "comm/comm.h"

typedef struct {
    spyre_comm *c;
    const spyre_request *r;
    comm_wait wait;
    uint32_t rank, size, turn;      // turn: of header and small data
    size_t element;                 // bytes
    uint64_t bytes;                 // of `count` elements
} collective;

// Bytes [at, at + bytes) of what goes through the pipeline, and the part of each rank's staging
// that they use.
typedef struct {
    uint64_t at, bytes;
    uint32_t part;
} chunk;

typedef struct {
    uint64_t bytes, room;           // of all chunks, of one
    uint32_t stages;
    void (*work)(const collective *x, const chunk *c, uint32_t stage);
} pipeline;

SPYRE_MUST_CHECK spyre_status collective_pipe(collective *x, const pipeline *p);

// --- gather_scatter.c: broadcast, gather, scatter, all-gather, all-to-all

// Writes this rank's data beside its header, if they are small enough for that.
void gather_scatter_publish(const collective *x, uint8_t *small);
SPYRE_MUST_CHECK spyre_status gather_scatter_data(collective *x);

// --- reduction_algorithms.c: reduce, all-reduce, reduce-scatter

bool is_reduction(spyre_comm_kind kind);
void reduce_publish(const collective *x, uint8_t *small);
SPYRE_MUST_CHECK spyre_status reduce_data(collective *x);

// --- Both

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// Elements of the ranks below.
static inline uint64_t sum_before(const uint64_t *counts, uint32_t rank)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < rank; r++) sum += counts[r];
    return sum;
}

// Where this rank's data for another rank begins in its input.
const uint8_t *collective_source(const collective *x, uint32_t to);

// memmove() that knows of no bytes and of data that are in place.
void collective_copy(void *target, const void *source, uint64_t bytes);

#endif
