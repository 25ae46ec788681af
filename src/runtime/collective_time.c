// SPDX-License-Identifier: Apache-2.0
//
// What ranks exchange, on the virtual clock. The model counts the messages that a rank waits for
// one after the other, and the bytes that pass its link in one direction; an all-reduce is a
// reduce-scatter and an all-gather, a broadcast and a barrier are trees.
#include <math.h>
#include <stdlib.h>

#include "isa/constants.h"
#include "runtime/device.h"
#include "runtime/collective_time.h"
#include "runtime/metrics.h"

double exchange_us_over(const exchange_link *link, spyre_comm_kind kind, uint32_t ranks,
                        double bytes)
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
    return messages * link->latency + moved / link->bandwidth;
}

double exchange_us(spyre_comm_kind kind, uint32_t ranks, double bytes)
{
    const exchange_link link = {EXCHANGE_BANDWIDTH, EXCHANGE_LATENCY};
    return exchange_us_over(&link, kind, ranks, bytes);
}

exchange_traffic exchange_traffic_of(const spyre_exchange_info *info)
{
    double bytes = (double)info->bytes, others = info->ranks > 1 ? (double)(info->ranks - 1) : 0;
    double all = others * bytes, part = info->ranks ? all / (double)info->ranks : 0;
    double from_root = info->root ? all : 0, to_others = info->root || all <= 0 ? 0 : bytes;
    switch (info->kind) {
    case SPYRE_COMM_ALL_REDUCE: return (exchange_traffic){2 * part, 2 * part};
    case SPYRE_COMM_REDUCE:     // slices are reduced everywhere, then go to the root
        return info->root ? (exchange_traffic){part, 2 * part}
                          : (exchange_traffic){all > 0 ? bytes : 0, part};
    case SPYRE_COMM_BROADCAST:  // a tree sends what the root would
    case SPYRE_COMM_SCATTER: return (exchange_traffic){from_root, to_others};
    case SPYRE_COMM_GATHER: return (exchange_traffic){to_others, from_root};
    case SPYRE_COMM_SEND: return (exchange_traffic){bytes, 0};
    case SPYRE_COMM_RECEIVE: return (exchange_traffic){0, bytes};
    case SPYRE_COMM_ALL_GATHER:
    case SPYRE_COMM_REDUCE_SCATTER:
    case SPYRE_COMM_ALL_TO_ALL: return (exchange_traffic){all, all};
    case SPYRE_COMM_BARRIER:
    case SPYRE_COMM_KIND_COUNT: break;
    }
    return (exchange_traffic){0, 0};
}

typedef struct {
    task base;
    spyre_exchange_info info;
} exchange_task;

static spyre_status run_exchange(device *d, task *t)
{
    exchange_task *self = (exchange_task *)(void *)t;
    exchange_traffic traffic = exchange_traffic_of(&self->info);
    if (d->metrics) metrics_exchange(d->metrics, traffic.sent, traffic.received);
    return NULL;
}

static void release_exchange(task *t)
{
    free(t);
}

spyre_status spyre_exchange(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                            const spyre_exchange_info *info)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    exchange_task *self = calloc(1, sizeof *self);
    TRY_ALLOC(self);
    self->info = *info;
    self->base = (task){
        .run = run_exchange,
        .release = release_exchange,
        .recorded = true,
        .kind = SPYRE_ACTIVITY_EXCHANGE,
        .name = spyre_comm_kind_name(info->kind),
        .bytes = info->bytes,
        .resource = CLOCK_EXCHANGE,
        .card_us = exchange_us(info->kind, info->ranks, (double)info->bytes),
        .placed = info->begin_us >= 0,
        .card_begin_us = info->begin_us,
    };
    return device_submit(d, stream_id, &self->base, true);
}

double spyre_exchange_us(const spyre_exchange_info *info)
{
    return exchange_us(info->kind, info->ranks, (double)info->bytes);
}
