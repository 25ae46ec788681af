// SPDX-License-Identifier: Apache-2.0
//
// The algorithms. All ranks execute the same steps, since they have compared what they call:
//
//  1. publish the header and, if it is small, this rank's data; meet; compare the headers.
//  2. Moves (broadcast, gather, all-to-all, ..): each rank has a stream of bytes for the others,
//     and takes a range of each other rank's stream. Streams go through staging, halves in turns:
//     write half k, meet, read all halves k. Who has met for k + 1 has read k, so half k is free;
//     the meeting for the next operation's header does the same at the end.
//  3. Reductions: a chunk at a time each rank stages its elements, meets, and reduces its slice
//     over all ranks' staging in rank order. For an all-reduce the result goes to the slice's own
//     place in staging, which nobody else reads before, and after another meeting all ranks copy
//     all slices. Each byte is copied once into and once out of memory that stays in caches.
//
// A rank's own elements are read where they are.
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/combine.h"
#include "comm/comm.h"

typedef struct {
    spyre_comm *c;
    const spyre_request *r;
    comm_wait wait;
    uint32_t rank, size, turn;      // turn: of header and small data
    size_t element;                 // bytes
    uint64_t bytes;                 // of `count` elements
} run;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void copy(void *target, const void *source, uint64_t bytes)
{
    if (bytes && target != source) memmove(target, source, bytes);
}

// --- Moves

// A range of some rank's stream.
typedef struct {
    uint64_t at, bytes;
} range;

// Elements that rank `from` sends before those for rank `to`: its stream begins with the rank
// behind it and has nothing for itself.
static uint64_t elements_before(const uint64_t *counts, uint32_t from, uint32_t to, uint32_t size)
{
    uint64_t sum = 0;
    for (uint32_t r = (from + 1) % size; r != to; r = (r + 1) % size) sum += counts[r];
    return sum;
}

// The part of rank `from`'s stream that rank `to` takes; for from == to all of the stream's length.
static range range_of(const run *x, uint32_t from, uint32_t to)
{
    const spyre_comm_call *call = &x->r->call;
    bool root_sends = from == call->root;
    uint32_t places = x->size - 1;
    switch (call->kind) {
    case SPYRE_COMM_ALL_GATHER: return (range){0, x->bytes};
    case SPYRE_COMM_GATHER: return (range){0, from != call->root && (to == call->root || to == from)
                                                  ? x->bytes : 0};
    case SPYRE_COMM_BROADCAST: return (range){0, root_sends ? x->bytes : 0};
    case SPYRE_COMM_SCATTER:
        if (!root_sends) return (range){0, 0};
        if (from == to) return (range){0, places * x->bytes};
        return (range){(to + x->size - from - 1) % x->size * x->bytes, x->bytes};
    case SPYRE_COMM_ALL_TO_ALL: {
        const uint64_t *counts = x->c->lists[from].send;
        uint64_t before = elements_before(counts, from, to, x->size);
        if (from == to) return (range){0, before * x->element};
        return (range){before * x->element, counts[to] * x->element};
    }
    case SPYRE_COMM_BARRIER:
    case SPYRE_COMM_REDUCE:
    case SPYRE_COMM_ALL_REDUCE:
    case SPYRE_COMM_REDUCE_SCATTER:
    case SPYRE_COMM_SEND:
    case SPYRE_COMM_RECEIVE:
    case SPYRE_COMM_KIND_COUNT: break;
    }
    return (range){0, 0};
}

static uint64_t sum_before(const uint64_t *counts, uint32_t rank)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < rank; r++) sum += counts[r];
    return sum;
}

// Where this rank's data for another rank begins in its input, and the other's in its output.
static const uint8_t *source_for(const run *x, uint32_t to)
{
    const uint8_t *input = x->r->call.input;
    spyre_comm_kind kind = x->r->call.kind;
    if (x->r->call.inputs) return x->r->call.inputs[to];
    if (kind == SPYRE_COMM_SCATTER || kind == SPYRE_COMM_REDUCE_SCATTER)
        return input + to * x->bytes;
    if (kind != SPYRE_COMM_ALL_TO_ALL) return input;
    return input + sum_before(x->c->lists[x->rank].send, to) * x->element;
}

static uint8_t *target_for(const run *x, uint32_t from)
{
    uint8_t *output = x->r->call.output;
    if (x->r->call.outputs) return x->r->call.outputs[from];
    if (x->r->call.kind == SPYRE_COMM_GATHER || x->r->call.kind == SPYRE_COMM_ALL_GATHER)
        return output + from * x->bytes;
    if (x->r->call.kind != SPYRE_COMM_ALL_TO_ALL) return output;
    return output + sum_before(x->c->lists[x->rank].receive, from) * x->element;
}

// Bytes [at, at + bytes) of this rank's stream.
static void write_stream(const run *x, uint64_t at, uint64_t bytes, uint8_t *target)
{
    spyre_comm_kind kind = x->r->call.kind;
    bool by_rank = kind == SPYRE_COMM_SCATTER || kind == SPYRE_COMM_ALL_TO_ALL;
    if (!by_rank) {
        copy(target, (const uint8_t *)x->r->call.input + at, bytes);
        return;
    }
    for (uint32_t to = 0; to < x->size; to++) {
        if (to == x->rank) continue;
        range part = range_of(x, x->rank, to);
        uint64_t begin = at > part.at ? at : part.at;
        uint64_t end = least(at + bytes, part.at + part.bytes);
        if (begin < end) copy(target + (begin - at), source_for(x, to) + (begin - part.at),
                              end - begin);
    }
}

// Bytes [at, at + bytes) of this rank's stream, which lie at `base`, to those who take a part.
static void push_stream(const run *x, uint64_t at, uint64_t bytes, const uint8_t *base)
{
    for (uint32_t to = 0; to < x->size; to++) {
        if (to == x->rank) continue;
        range part = range_of(x, x->rank, to);
        uint64_t begin = at > part.at ? at : part.at;
        uint64_t end = least(at + bytes, part.at + part.bytes);
        if (begin < end) segment_push(&x->c->shared, to, base + (begin - at), end - begin);
    }
}

// What this rank takes of bytes [at, at + bytes) of another one's stream, which lie at `source`.
static void read_stream(const run *x, uint32_t from, uint64_t at, uint64_t bytes,
                        const uint8_t *source)
{
    range part = range_of(x, from, x->rank);
    uint64_t begin = at > part.at ? at : part.at;
    uint64_t end = least(at + bytes, part.at + part.bytes);
    if (begin < end)
        copy(target_for(x, from) + (begin - part.at), source + (begin - at), end - begin);
}

static void move_own(const run *x)
{
    const spyre_comm_call *call = &x->r->call;
    bool root = call->root == x->rank;
    switch (call->kind) {
    case SPYRE_COMM_ALL_GATHER: copy(target_for(x, x->rank), call->input, x->bytes); break;
    case SPYRE_COMM_GATHER:
        if (root) copy(target_for(x, x->rank), call->input, x->bytes);
        break;
    case SPYRE_COMM_BROADCAST:
        if (root && call->output) copy(call->output, call->input, x->bytes);
        break;
    case SPYRE_COMM_SCATTER:
        if (root) copy(call->output, source_for(x, x->rank), x->bytes);
        break;
    case SPYRE_COMM_ALL_TO_ALL:
        copy(target_for(x, x->rank), source_for(x, x->rank),
             x->c->lists[x->rank].send[x->rank] * x->element);
        break;
    case SPYRE_COMM_BARRIER:
    case SPYRE_COMM_REDUCE:
    case SPYRE_COMM_ALL_REDUCE:
    case SPYRE_COMM_REDUCE_SCATTER:
    case SPYRE_COMM_SEND:
    case SPYRE_COMM_RECEIVE:
    case SPYRE_COMM_KIND_COUNT: break;
    }
}

// Whether all of a rank's stream lies beside its header.
static bool is_small(const run *x, uint32_t rank)
{
    return range_of(x, rank, rank).bytes <= SEGMENT_SMALL_BYTES;
}

static spyre_status move(run *x)
{
    uint64_t own = range_of(x, x->rank, x->rank).bytes, longest = 0;
    for (uint32_t from = 0; from < x->size; from++) {
        if (from == x->rank) continue;
        uint64_t bytes = range_of(x, from, from).bytes;
        if (is_small(x, from))
            read_stream(x, from, 0, bytes,
                        segment_rank_of(&x->c->shared, from)->small[x->turn]);
        else if (bytes > longest) longest = bytes;
    }
    if (!is_small(x, x->rank) && own > longest) longest = own;
    move_own(x);
    uint32_t half = 0;
    for (uint64_t at = 0; at < longest; at += SEGMENT_HALF_BYTES, half ^= 1) {
        uint64_t bytes = least(longest - at, SEGMENT_HALF_BYTES);
        if (at < own && !is_small(x, x->rank)) {
            uint8_t *staging = segment_staging(&x->c->shared, x->rank, half);
            write_stream(x, at, least(own - at, bytes), staging);
            push_stream(x, at, least(own - at, bytes), staging);
        }
        TRY(comm_meet(x->c, &x->wait));
        for (uint32_t from = 0; from < x->size; from++)
            if (from != x->rank && !is_small(x, from))
                read_stream(x, from, at, bytes, segment_staging(&x->c->shared, from, half));
    }
    return NULL;
}

// --- Reductions

static void combine(const run *x, const void *const *inputs, uint64_t bytes, void *target)
{
    comm_combine(x->r->call.reduction, x->r->call.format, inputs, x->size, bytes / x->element,
                 target);
}

// The slice of a chunk of `bytes` that a rank reduces: whole lines, nearly as many for each.
static range slice_of(const run *x, uint32_t rank, uint64_t bytes)
{
    uint64_t lines = (bytes + 63) / 64, each = (lines + x->size - 1) / x->size;
    uint64_t begin = least(rank * each * 64, bytes);
    return (range){begin, least(begin + each * 64, bytes) - begin};
}

// Everything but the rank's own slice, which only it reads.
static void stage_others(const run *x, const uint8_t *input, uint64_t bytes, uint8_t *staging)
{
    range own = slice_of(x, x->rank, bytes);
    copy(staging, input, own.at);
    uint64_t behind = own.at + own.bytes;
    copy(staging + behind, input + behind, bytes - behind);
    for (uint32_t to = 0; to < x->size; to++) {
        range other = slice_of(x, to, bytes);
        if (to != x->rank) segment_push(&x->c->shared, to, staging + other.at, other.bytes);
    }
}

// A chunk of an all-reduce or reduce.
static spyre_status reduce_chunk(run *x, uint64_t at, uint64_t bytes, uint32_t half)
{
    const segment *s = &x->c->shared;
    const spyre_comm_call *call = &x->r->call;
    const uint8_t *input = (const uint8_t *)call->input + at;
    uint8_t *staging = segment_staging(s, x->rank, half);
    stage_others(x, input, bytes, staging);
    TRY(comm_meet(x->c, &x->wait));
    range own = slice_of(x, x->rank, bytes);
    const void *inputs[SPYRE_COMM_MOST_RANKS];
    for (uint32_t r = 0; r < x->size; r++) inputs[r] = segment_staging(s, r, half) + own.at;
    inputs[x->rank] = input + own.at;
    combine(x, inputs, own.bytes, staging + own.at);
    uint32_t reader = call->kind == SPYRE_COMM_REDUCE ? call->root : SEGMENT_ALL;
    if (reader != x->rank) segment_push(s, reader, staging + own.at, own.bytes);
    TRY(comm_meet(x->c, &x->wait));
    if (call->kind == SPYRE_COMM_REDUCE && call->root != x->rank) return NULL;
    for (uint32_t r = 0; r < x->size; r++) {
        range part = slice_of(x, r, bytes);
        copy((uint8_t *)call->output + at + part.at, segment_staging(s, r, half) + part.at,
             part.bytes);
    }
    return NULL;
}

// A chunk of each rank's block of a reduce-scatter; blocks lie `room` bytes apart in staging.
static spyre_status reduce_block(run *x, uint64_t at, uint64_t bytes, uint64_t room, uint32_t half)
{
    const segment *s = &x->c->shared;
    uint8_t *staging = segment_staging(s, x->rank, half);
    for (uint32_t to = 0; to < x->size; to++) {
        if (to == x->rank) continue;
        copy(staging + to * room, source_for(x, to) + at, bytes);
        segment_push(s, to, staging + to * room, bytes);
    }
    TRY(comm_meet(x->c, &x->wait));
    const void *inputs[SPYRE_COMM_MOST_RANKS];
    for (uint32_t r = 0; r < x->size; r++) inputs[r] = segment_staging(s, r, half) + x->rank * room;
    inputs[x->rank] = source_for(x, x->rank) + at;
    combine(x, inputs, bytes, (uint8_t *)x->r->call.output + at);
    return NULL;
}

static spyre_status reduce_large(run *x)
{
    bool scatters = x->r->call.kind == SPYRE_COMM_REDUCE_SCATTER;
    uint64_t room = scatters ? (SEGMENT_HALF_BYTES / x->size) & ~UINT64_C(63) : SEGMENT_HALF_BYTES;
    uint32_t half = 0;
    for (uint64_t at = 0; at < x->bytes; at += room, half ^= 1) {
        uint64_t bytes = least(x->bytes - at, room);
        if (scatters) TRY(reduce_block(x, at, bytes, room, half));
        else TRY(reduce_chunk(x, at, bytes, half));
    }
    return NULL;
}

// Bytes that this rank contributes to a reduction.
static uint64_t contribution(const run *x)
{
    return x->r->call.kind == SPYRE_COMM_REDUCE_SCATTER ? x->bytes * x->size : x->bytes;
}

static spyre_status reduce(run *x)
{
    const spyre_comm_call *call = &x->r->call;
    if (contribution(x) > SEGMENT_SMALL_BYTES) return reduce_large(x);
    if (call->kind == SPYRE_COMM_REDUCE && call->root != x->rank) return NULL;
    const void *inputs[SPYRE_COMM_MOST_RANKS];
    uint64_t at = call->kind == SPYRE_COMM_REDUCE_SCATTER ? x->rank * x->bytes : 0;
    for (uint32_t r = 0; r < x->size; r++)
        inputs[r] = segment_rank_of(&x->c->shared, r)->small[x->turn] + at;
    combine(x, inputs, x->bytes, call->output);
    return NULL;
}

// --- The whole

static bool reduces(spyre_comm_kind kind)
{
    return kind == SPYRE_COMM_REDUCE || kind == SPYRE_COMM_ALL_REDUCE ||
           kind == SPYRE_COMM_REDUCE_SCATTER;
}

// Of a reduction, what is small enough to lie beside the header.
static void publish_terms(run *x, uint8_t *target)
{
    bool scatters = x->r->call.kind == SPYRE_COMM_REDUCE_SCATTER;
    uint32_t blocks = contribution(x) > SEGMENT_SMALL_BYTES ? 0 : scatters ? x->size : 1;
    for (uint32_t to = 0; to < blocks; to++)
        copy(target + to * x->bytes, source_for(x, to), x->bytes);
    if (blocks) segment_push(&x->c->shared, SEGMENT_ALL, target, contribution(x));
}

static void publish(run *x)
{
    const segment *s = &x->c->shared;
    segment_rank *mine = segment_rank_of(s, x->rank);
    uint8_t *small = mine->small[x->turn];
    mine->headers[x->turn] = x->r->header;
    segment_push(s, SEGMENT_ALL, &mine->headers[x->turn], sizeof mine->headers[0]);
    if (x->r->call.kind == SPYRE_COMM_ALL_TO_ALL) {
        x->c->lists[x->rank] = mine->lists[x->turn] = x->r->lists;
        segment_push(s, SEGMENT_ALL, &mine->lists[x->turn], sizeof mine->lists[0]);
    }
    if (reduces(x->r->call.kind)) {
        publish_terms(x, small);
    } else if (is_small(x, x->rank)) {
        uint64_t bytes = range_of(x, x->rank, x->rank).bytes;
        write_stream(x, 0, bytes, small);
        push_stream(x, 0, bytes, small);
    }
}

static spyre_status compare(run *x)
{
    spyre_comm *c = x->c;
    bool lists = false;
    for (uint32_t r = 0; r < x->size; r++) {
        c->headers[r] = segment_rank_of(&c->shared, r)->headers[x->turn];
        lists = lists || c->headers[r].kind == SPYRE_COMM_ALL_TO_ALL;
    }
    for (uint32_t r = 0; r < x->size; r++) {
        if (lists) c->lists[r] = segment_rank_of(&c->shared, r)->lists[x->turn];
        TRY(header_check(&c->headers[r], lists ? &c->lists[r] : NULL, r, x->size));
    }
    for (uint32_t r = 0; r < x->size && x->r->call.clock_us; r++)
        if (c->headers[r].clock_us > *x->r->call.clock_us)
            *x->r->call.clock_us = c->headers[r].clock_us;
    return status_at(header_compare(c->headers, c->lists, x->size), "rank %u (of %u)", x->rank,
                     x->size);
}

spyre_status collective_execute(spyre_comm *c, spyre_request *r)
{
    int64_t timeout_ms = r->call.timeout_ms ? r->call.timeout_ms : c->timeout_ms;
    size_t element = spyre_format_bytes(r->call.format);
    run x = {.c = c, .r = r, .rank = c->shared.rank, .size = c->shared.size,
             .turn = r->header.number & 1, .element = element, .bytes = r->call.count * element,
             .wait = {&r->header, clock_now_ns() + timeout_ms * 1000000, r->interruptible}};
    publish(&x);
    TRY(comm_meet(c, &x.wait));
    TRY(compare(&x));
    if (r->call.kind == SPYRE_COMM_BARRIER) return NULL;
    return reduces(r->call.kind) ? reduce(&x) : move(&x);
}
