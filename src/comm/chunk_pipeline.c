// SPDX-License-Identifier: Apache-2.0
//
// Chunk k uses part k modulo SHARED_MEMORY_PARTS of each rank's staging. Nothing reads a part later
// than SHARED_MEMORY_PARTS - 1 steps after it was written, so it is free when chunk k +
// SHARED_MEMORY_PARTS comes; behind the last chunk the meeting for the next operation's header does
// the same.
//
//   step    0      1      2      3        (two chunks, three stages)
//   chunk 0 stage  combine collect
//   chunk 1        stage  combine collect
#include <string.h>

#include "base/status.h"
#include "comm/collective.h"

void collective_copy(void *target, const void *source, uint64_t bytes)
{
    if (bytes && target != source) memmove(target, source, bytes);
}

const uint8_t *collective_source(const collective *x, uint32_t to)
{
    const uint8_t *input = x->r->call.input;
    spyre_comm_kind kind = x->r->call.kind;
    if (x->r->call.inputs) return x->r->call.inputs[to];
    if (kind == SPYRE_COMM_SCATTER || kind == SPYRE_COMM_REDUCE_SCATTER)
        return input + to * x->bytes;
    if (kind != SPYRE_COMM_ALL_TO_ALL) return input;
    return input + sum_before(x->c->lists[x->rank].send, to) * x->element;
}

static void work(const collective *x, const pipeline *p, uint64_t step)
{
    uint64_t chunks = (p->bytes + p->room - 1) / p->room;
    uint64_t oldest = step < p->stages ? 0 : step - p->stages + 1;
    for (uint64_t k = oldest; k <= step && k < chunks; k++) {
        uint64_t at = k * p->room;
        chunk c = {at, least(p->bytes - at, p->room), (uint32_t)(k % SHARED_MEMORY_PARTS)};
        p->work(x, &c, (uint32_t)(step - k));
    }
}

spyre_status collective_pipe(collective *x, const pipeline *p)
{
    if (!p->bytes) return NULL;
    uint64_t chunks = (p->bytes + p->room - 1) / p->room, steps = chunks + p->stages - 1;
    for (uint64_t step = 0; step < steps; step++) {
        if (step) TRY(comm_meet(x->c, &x->wait));
        work(x, p, step);
    }
    return NULL;
}
