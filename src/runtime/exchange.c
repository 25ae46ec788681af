// SPDX-License-Identifier: Apache-2.0
//
// What ranks exchange, on the virtual clock. The model counts the messages that a rank waits for
// one after the other, and the bytes that pass its link in one direction; an all-reduce is a
// reduce-scatter and an all-gather, a broadcast and a barrier are trees.
#include <math.h>
#include <stdlib.h>

#include "isa/constants.h"
#include "runtime/device.h"
#include "runtime/exchange.h"

double exchange_us(spyre_comm_kind kind, uint32_t ranks, double bytes)
{
    double others = ranks > 1 ? (double)(ranks - 1) : 0, messages = others, moved = others * bytes;
    double part = ranks ? others / (double)ranks : 0, depth = ceil(log2(ranks ? ranks : 1));
    switch (kind) {
    case SPYRE_COMM_BARRIER:
        messages = depth;
        moved = 0;
        break;
    case SPYRE_COMM_BROADCAST:
        messages = depth;
        moved = ranks > 1 ? bytes : 0;
        break;
    case SPYRE_COMM_REDUCE:
    case SPYRE_COMM_ALL_REDUCE:
        messages = 2 * others;
        moved = 2 * part * bytes;
        break;
    case SPYRE_COMM_SEND:
    case SPYRE_COMM_RECEIVE:
        messages = 1;
        moved = bytes;
        break;
    case SPYRE_COMM_GATHER:
    case SPYRE_COMM_SCATTER:
    case SPYRE_COMM_ALL_GATHER:
    case SPYRE_COMM_REDUCE_SCATTER:
    case SPYRE_COMM_ALL_TO_ALL:
    case SPYRE_COMM_KIND_COUNT: break;
    }
    return messages * EXCHANGE_LATENCY + moved / EXCHANGE_BANDWIDTH;
}

static spyre_status run_exchange(device *d, task *t)
{
    (void)d, (void)t;
    return NULL;
}

static void release_exchange(task *t)
{
    free(t);
}

spyre_status spyre_exchange(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                            spyre_comm_kind kind, uint32_t ranks, int64_t bytes)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    task *self = calloc(1, sizeof *self);
    TRY_ALLOC(self);
    self->run = run_exchange;
    self->release = release_exchange;
    self->recorded = true;
    self->kind = SPYRE_ACTIVITY_EXCHANGE;
    self->name = spyre_comm_kind_name(kind);
    self->bytes = bytes;
    self->resource = CLOCK_EXCHANGE;
    self->card_us = exchange_us(kind, ranks, (double)bytes);
    return device_submit(d, stream_id, self, true);
}
