// SPDX-License-Identifier: Apache-2.0
//
// The steps of a collective, which are the same on all ranks, since they have compared what they
// call:
//
//  1. publish the header and, if it is small, this rank's data; meet; compare the headers.
//  2. Larger data: a pipeline through staging (chunk_pipeline.c), of moves (gather_scatter.c) or
//     reductions (reduction_algorithms.c).
#include "comm/collective.h"

#include "base/clock.h"
#include "base/status.h"

static void publish(const collective *x)
{
    const shared_memory *s = &x->c->shared;
    shared_memory_rank *mine = shared_memory_rank_of(s, x->rank);
    mine->headers[x->turn] = x->r->header;
    shared_memory_push(s, SHARED_MEMORY_ALL, &mine->headers[x->turn], sizeof mine->headers[0]);
    if (x->r->call.kind == SPYRE_COMM_ALL_TO_ALL) {
        x->c->lists[x->rank] = mine->lists[x->turn] = x->r->lists;
        shared_memory_push(s, SHARED_MEMORY_ALL, &mine->lists[x->turn], sizeof mine->lists[0]);
    }
    if (is_reduction(x->r->call.kind)) reduce_publish(x, mine->small[x->turn]);
    else gather_scatter_publish(x, mine->small[x->turn]);
}

static spyre_status compare(collective *x)
{
    spyre_comm *c = x->c;
    bool lists = false;
    for (uint32_t r = 0; r < x->size; r++) {
        c->headers[r] = shared_memory_rank_of(&c->shared, r)->headers[x->turn];
        lists = lists || c->headers[r].kind == SPYRE_COMM_ALL_TO_ALL;
    }
    for (uint32_t r = 0; r < x->size; r++) {
        if (lists) c->lists[r] = shared_memory_rank_of(&c->shared, r)->lists[x->turn];
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
    collective x = {.c = c, .r = r, .rank = c->shared.rank, .size = c->shared.size,
             .turn = r->header.number & 1, .element = element, .bytes = r->call.count * element,
             .wait = {&r->header, clock_now_ns() + timeout_ms * 1000000, r->interruptible}};
    publish(&x);
    TRY(comm_meet(c, &x.wait));
    TRY(compare(&x));
    if (r->call.kind == SPYRE_COMM_BARRIER) return NULL;
    return is_reduction(r->call.kind) ? reduce_data(&x) : gather_scatter_data(&x);
}
