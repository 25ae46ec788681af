// SPDX-License-Identifier: Apache-2.0
//
// Reductions. Up to SHARED_MEMORY_SMALL_BYTES lie beside the headers, and who needs the result
// combines them. More goes through staging by one of several algorithms (choose_algorithm.h says
// which):
//
//  direct   stage 0: each rank stages its elements. 1: who needs the result combines all ranks'.
//  sliced   stage 0: each rank stages the others' slices. 1: it combines its own slice of all
//           ranks', and stages the result. 2: all slices are copied out.
//  chain    stage r: rank r adds its elements to the partial result of rank r - 1 and stages the
//           sum; the last rank stages the result. Stage n: it is copied out.
//
// All of them combine an element in the order of the ranks in fp32 with one rounding at the end, so
// their results are equal bit for bit. A rank's own elements are read where they are, and each byte
// of others once, from memory that stays in caches.
#include "base/status.h"
#include "comm/choose_algorithm.h"
#include "comm/collective.h"
#include "comm/combine.h"

// Combined at once of a slice, so that what is staged again is still in the first cache.
enum { BLOCK_BYTES = 16 << 10 };

bool is_reduction(spyre_comm_kind kind)
{
    return kind == SPYRE_COMM_REDUCE || kind == SPYRE_COMM_ALL_REDUCE ||
           kind == SPYRE_COMM_REDUCE_SCATTER;
}

static bool scatters(const collective *x)
{
    return x->r->call.kind == SPYRE_COMM_REDUCE_SCATTER;
}

// Whether a rank gets the result of a reduce or all-reduce.
static bool takes_result(const collective *x, uint32_t rank)
{
    return x->r->call.kind != SPYRE_COMM_REDUCE || x->r->call.root == rank;
}

// To whom the whole result goes.
static uint32_t readers(const collective *x)
{
    return x->r->call.kind == SPYRE_COMM_REDUCE ? x->r->call.root : SHARED_MEMORY_ALL;
}

static void push(const collective *x, uint32_t to, const void *at, uint64_t bytes)
{
    if (to != x->rank) shared_memory_push(&x->c->shared, to, at, bytes);
}

static uint8_t *staging_of(const collective *x, uint32_t rank, const chunk *c)
{
    return shared_memory_staging(&x->c->shared, rank, c->part);
}

static const uint8_t *input_at(const collective *x, uint64_t at)
{
    return (const uint8_t *)x->r->call.input + at;
}

static uint8_t *output_at(const collective *x, uint64_t at)
{
    return (uint8_t *)x->r->call.output + at;
}

// Combines what all ranks have staged at byte `at` of a chunk's part with this rank's `own`.
static void combine(const collective *x, const chunk *c, uint64_t at, const uint8_t *own,
                    uint64_t bytes, void *target)
{
    const void *inputs[SPYRE_COMM_MOST_RANKS];
    for (uint32_t r = 0; r < x->size; r++) inputs[r] = staging_of(x, r, c) + at;
    inputs[x->rank] = own;
    comm_combine(x->r->call.reduction, x->r->call.format, inputs, x->size, bytes / x->element,
                 target);
}

// --- Direct

static void direct(const collective *x, const chunk *c, uint32_t stage)
{
    if (stage == 1) {
        if (takes_result(x, x->rank))
            combine(x, c, 0, input_at(x, c->at), c->bytes, output_at(x, c->at));
        return;
    }
    collective_copy(staging_of(x, x->rank, c), input_at(x, c->at), c->bytes);
    push(x, readers(x), staging_of(x, x->rank, c), c->bytes);
}

// Blocks lie `room` bytes apart in staging.
static void scatter(const collective *x, const chunk *c, uint32_t stage)
{
    uint64_t room = chunk_size_of_blocks(x->size);
    if (stage == 1) {
        combine(x, c, x->rank * room, collective_source(x, x->rank) + c->at, c->bytes,
                output_at(x, c->at));
        return;
    }
    for (uint32_t to = 0; to < x->size; to++) {
        uint8_t *staged = staging_of(x, x->rank, c) + to * room;
        if (to == x->rank) continue;
        collective_copy(staged, collective_source(x, to) + c->at, c->bytes);
        push(x, to, staged, c->bytes);
    }
}

// --- Sliced

typedef struct {
    uint64_t at, bytes;
} slice;

// The slice of a chunk that a rank combines: whole lines, nearly as many for each.
static slice slice_of(const collective *x, uint32_t rank, const chunk *c)
{
    uint64_t lines = (c->bytes + 63) / 64, each = (lines + x->size - 1) / x->size;
    uint64_t begin = least(rank * each * 64, c->bytes);
    return (slice){begin, least(begin + each * 64, c->bytes) - begin};
}

static void stage_slices(const collective *x, const chunk *c)
{
    uint8_t *staging = staging_of(x, x->rank, c);
    for (uint32_t to = 0; to < x->size; to++) {
        slice s = slice_of(x, to, c);
        if (to == x->rank) continue;
        collective_copy(staging + s.at, input_at(x, c->at + s.at), s.bytes);
        push(x, to, staging + s.at, s.bytes);
    }
}

static void combine_slice(const collective *x, const chunk *c)
{
    uint8_t *staging = staging_of(x, x->rank, c);
    slice own = slice_of(x, x->rank, c);
    bool here = takes_result(x, x->rank);
    for (uint64_t done = 0; done < own.bytes; done += BLOCK_BYTES) {
        uint64_t at = own.at + done, bytes = least(own.bytes - done, BLOCK_BYTES);
        combine(x, c, at, input_at(x, c->at + at), bytes, staging + at);
        if (here) collective_copy(output_at(x, c->at + at), staging + at, bytes);
    }
    push(x, readers(x), staging + own.at, own.bytes);
}

static void collect_slices(const collective *x, const chunk *c)
{
    for (uint32_t r = 0; r < x->size; r++) {
        slice s = slice_of(x, r, c);
        if (r != x->rank)
            collective_copy(output_at(x, c->at + s.at), staging_of(x, r, c) + s.at, s.bytes);
    }
}

static void sliced(const collective *x, const chunk *c, uint32_t stage)
{
    if (stage == 0) stage_slices(x, c);
    else if (stage == 1) combine_slice(x, c);
    else if (takes_result(x, x->rank)) collect_slices(x, c);
}

// --- Chain

static uint64_t partial_bytes(const collective *x, const chunk *c)
{
    return c->bytes / x->element *
           spyre_format_bytes(comm_partial_format(x->r->call.format));
}

static void add_to_chain(const collective *x, const chunk *c)
{
    const spyre_comm_call *call = &x->r->call;
    uint8_t *staging = staging_of(x, x->rank, c);
    const void *before = x->rank ? staging_of(x, x->rank - 1, c) : NULL;
    uint64_t count = c->bytes / x->element;
    comm_combine_next(call->reduction, call->format, before, input_at(x, c->at), count, staging);
    if (x->rank + 1 < x->size) {
        push(x, x->rank + 1, staging, partial_bytes(x, c));
        return;
    }
    comm_combine_finish(call->reduction, call->format, staging, x->size, count, staging);
    push(x, readers(x), staging, c->bytes);
}

static void chain(const collective *x, const chunk *c, uint32_t stage)
{
    if (stage == x->rank) add_to_chain(x, c);
    if (stage == x->size && takes_result(x, x->rank))
        collective_copy(output_at(x, c->at), staging_of(x, x->size - 1, c), c->bytes);
}

// --- The whole

// Bytes that this rank contributes.
static uint64_t contribution(const collective *x)
{
    return scatters(x) ? x->bytes * x->size : x->bytes;
}

static bool is_small(const collective *x)
{
    return contribution(x) <= SHARED_MEMORY_SMALL_BYTES;
}

void reduce_publish(const collective *x, uint8_t *small)
{
    if (!is_small(x)) return;
    for (uint32_t to = 0; to < (scatters(x) ? x->size : 1); to++)
        collective_copy(small + to * x->bytes, collective_source(x, to), x->bytes);
    shared_memory_push(&x->c->shared, SHARED_MEMORY_ALL, small, contribution(x));
}

static void combine_small(const collective *x)
{
    const void *inputs[SPYRE_COMM_MOST_RANKS];
    uint64_t at = scatters(x) ? x->rank * x->bytes : 0;
    if (!takes_result(x, x->rank)) return;
    for (uint32_t r = 0; r < x->size; r++)
        inputs[r] = shared_memory_rank_of(&x->c->shared, r)->small[x->turn] + at;
    comm_combine(x->r->call.reduction, x->r->call.format, inputs, x->size,
                 x->bytes / x->element, x->r->call.output);
}

static pipeline choose(const collective *x)
{
    const spyre_comm_call *call = &x->r->call;
    if (scatters(x)) return (pipeline){x->bytes, chunk_size_of_blocks(x->size), 2, scatter};
    switch (algorithm_choose(&x->c->shared.topology, call->kind, call->format, x->bytes)) {
    case ALGORITHM_DIRECT: return (pipeline){x->bytes, CHUNK_BYTES, 2, direct};
    case ALGORITHM_CHAIN:
        return (pipeline){x->bytes, chunk_size_of_chain(call->format), x->size + 1, chain};
    case ALGORITHM_SLICED:
    case ALGORITHM_COUNT: break;
    }
    return (pipeline){x->bytes, CHUNK_BYTES, 3, sliced};
}

spyre_status reduce_data(collective *x)
{
    pipeline p = choose(x);
    if (!is_small(x)) return collective_pipe(x, &p);
    combine_small(x);
    return NULL;
}
