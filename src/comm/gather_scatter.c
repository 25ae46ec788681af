// SPDX-License-Identifier: Apache-2.0
//
// Moves of data. Each rank has a stream of bytes for the others, and takes a range of each other
// rank's stream. A stream of up to SHARED_MEMORY_SMALL_BYTES lies beside the header; a longer one
// goes through staging, chunk after chunk: written in one stage of the pipeline, read in the next.
// A rank's data for itself are copied where they are.
//
//   all-to-all of 3 ranks, stream of rank 1:  [for rank 2][for rank 0]
#include "comm/collective.h"

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
static range range_of(const collective *x, uint32_t from, uint32_t to)
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

// Where another rank's data begin in this one's output.
static uint8_t *target_for(const collective *x, uint32_t from)
{
    uint8_t *output = x->r->call.output;
    if (x->r->call.outputs) return x->r->call.outputs[from];
    if (x->r->call.kind == SPYRE_COMM_GATHER || x->r->call.kind == SPYRE_COMM_ALL_GATHER)
        return output + from * x->bytes;
    if (x->r->call.kind != SPYRE_COMM_ALL_TO_ALL) return output;
    return output + sum_before(x->c->lists[x->rank].receive, from) * x->element;
}

// Bytes [at, at + bytes) of this rank's stream.
static void write_stream(const collective *x, uint64_t at, uint64_t bytes, uint8_t *target)
{
    spyre_comm_kind kind = x->r->call.kind;
    bool by_rank = kind == SPYRE_COMM_SCATTER || kind == SPYRE_COMM_ALL_TO_ALL;
    if (!by_rank) {
        collective_copy(target, (const uint8_t *)x->r->call.input + at, bytes);
        return;
    }
    for (uint32_t to = 0; to < x->size; to++) {
        if (to == x->rank) continue;
        range part = range_of(x, x->rank, to);
        uint64_t begin = at > part.at ? at : part.at;
        uint64_t end = least(at + bytes, part.at + part.bytes);
        if (begin < end)
            collective_copy(target + (begin - at), collective_source(x, to) + (begin - part.at),
                            end - begin);
    }
}

// Bytes [at, at + bytes) of this rank's stream, which lie at `base`, to those who take a part.
static void push_stream(const collective *x, uint64_t at, uint64_t bytes, const uint8_t *base)
{
    for (uint32_t to = 0; to < x->size; to++) {
        if (to == x->rank) continue;
        range part = range_of(x, x->rank, to);
        uint64_t begin = at > part.at ? at : part.at;
        uint64_t end = least(at + bytes, part.at + part.bytes);
        if (begin < end) shared_memory_push(&x->c->shared, to, base + (begin - at), end - begin);
    }
}

// What this rank takes of bytes [at, at + bytes) of another one's stream, which lie at `source`.
static void read_stream(const collective *x, uint32_t from, uint64_t at, uint64_t bytes,
                        const uint8_t *source)
{
    range part = range_of(x, from, x->rank);
    uint64_t begin = at > part.at ? at : part.at;
    uint64_t end = least(at + bytes, part.at + part.bytes);
    if (begin < end)
        collective_copy(target_for(x, from) + (begin - part.at), source + (begin - at),
                        end - begin);
}

static void move_own(const collective *x)
{
    const spyre_comm_call *call = &x->r->call;
    bool root = call->root == x->rank;
    switch (call->kind) {
    case SPYRE_COMM_ALL_GATHER:
        collective_copy(target_for(x, x->rank), call->input, x->bytes);
        break;
    case SPYRE_COMM_GATHER:
        if (root) collective_copy(target_for(x, x->rank), call->input, x->bytes);
        break;
    case SPYRE_COMM_BROADCAST:
        if (root && call->output) collective_copy(call->output, call->input, x->bytes);
        break;
    case SPYRE_COMM_SCATTER:
        if (root) collective_copy(call->output, collective_source(x, x->rank), x->bytes);
        break;
    case SPYRE_COMM_ALL_TO_ALL:
        collective_copy(target_for(x, x->rank), collective_source(x, x->rank),
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
static bool is_small(const collective *x, uint32_t rank)
{
    return range_of(x, rank, rank).bytes <= SHARED_MEMORY_SMALL_BYTES;
}

static void read_small(const collective *x)
{
    for (uint32_t from = 0; from < x->size; from++)
        if (from != x->rank && is_small(x, from))
            read_stream(x, from, 0, range_of(x, from, from).bytes,
                        shared_memory_rank_of(&x->c->shared, from)->small[x->turn]);
}

static void write_chunk(const collective *x, const chunk *c)
{
    uint64_t own = range_of(x, x->rank, x->rank).bytes;
    if (c->at >= own || is_small(x, x->rank)) return;
    uint8_t *staging = shared_memory_staging(&x->c->shared, x->rank, c->part);
    write_stream(x, c->at, least(own - c->at, c->bytes), staging);
    push_stream(x, c->at, least(own - c->at, c->bytes), staging);
}

static void read_chunk(const collective *x, const chunk *c)
{
    for (uint32_t from = 0; from < x->size; from++)
        if (from != x->rank && !is_small(x, from))
            read_stream(x, from, c->at, c->bytes,
                        shared_memory_staging(&x->c->shared, from, c->part));
}

static void move_chunk(const collective *x, const chunk *c, uint32_t stage)
{
    if (stage == 0) write_chunk(x, c);
    else read_chunk(x, c);
}

void gather_scatter_publish(const collective *x, uint8_t *small)
{
    if (!is_small(x, x->rank)) return;
    uint64_t bytes = range_of(x, x->rank, x->rank).bytes;
    write_stream(x, 0, bytes, small);
    push_stream(x, 0, bytes, small);
}

spyre_status gather_scatter_data(collective *x)
{
    pipeline p = {.room = CHUNK_BYTES, .stages = 2, .work = move_chunk};
    for (uint32_t from = 0; from < x->size; from++) {
        uint64_t bytes = range_of(x, from, from).bytes;
        if (!is_small(x, from) && bytes > p.bytes) p.bytes = bytes;
    }
    read_small(x);
    move_own(x);
    return collective_pipe(x, &p);
}
