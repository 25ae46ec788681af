// SPDX-License-Identifier: Apache-2.0
//
// What every user of a device asks of it.
#include "runtime/device.h"

#include <unistd.h>

spyre_status device_of(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                       device **out_device)
{
    if (context->process != getpid()) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "the cards belong to process %d; a forked child cannot use them (start "
                          "worker processes by spawn)",
                          (int)context->process);
    }
    if (card_id >= context->card_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "card %u: there are %u", card_id,
                          context->card_count);
    }
    if (stream_id >= DEVICE_STREAMS) {
        return status_new(SPYRE_INVALID_ARGUMENT, "stream %u: expected 0 to %d", stream_id,
                          DEVICE_STREAMS - 1);
    }
    *out_device = &context->devices[card_id];
    return NULL;
}

device *device_lock(spyre_context *context, uint32_t card_id, uint32_t stream_id)
{
    device *d = NULL;
    spyre_status_free(device_of(context, card_id, stream_id, &d));
    if (d) pthread_mutex_lock(&d->lock);
    return d;
}

spyre_status device_copy_error(spyre_status error)
{
    if (!error) return NULL;
    return status_new(spyre_status_code(error), "%s", spyre_status_message(error));
}

uint64_t device_stream_oldest(const device_stream *s)
{
    if (s->busy) return s->busy_sequence;
    return s->first ? s->first->sequence : UINT64_MAX;
}

uint64_t device_oldest_sequence(const device *d)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t n = 0; n < DEVICE_STREAMS; n++) {
        uint64_t of_stream = device_stream_oldest(&d->streams[n]);
        if (of_stream < oldest) oldest = of_stream;
    }
    return oldest;
}

void device_sleep(device *d)
{
    d->sleepers++;
    pthread_cond_wait(&d->changed, &d->lock);
    d->sleepers--;
}

void device_wake(device *d)
{
    if (d->sleepers) pthread_cond_broadcast(&d->changed);
}
