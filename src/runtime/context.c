// SPDX-License-Identifier: Apache-2.0
//
// Opening and closing the emulated cards of a process.
#include <stdlib.h>
#include <unistd.h>

#include "base/environment.h"
#include "runtime/device.h"

static spyre_status start(spyre_context *context, uint32_t card_count)
{
    TRY(record_list_create(&context->records));
    TRY(transfer_cache_create(&context->transfers));
    for (uint32_t n = 0; n < card_count; n++) {
        TRY(device_start(&context->devices[n], context, n));
        context->card_count++;
    }
    return NULL;
}

static void stop(spyre_context *context)
{
    for (uint32_t n = 0; n < context->card_count; n++) device_stop(&context->devices[n]);
    transfer_cache_destroy(context->transfers);
    record_list_destroy(context->records);
    pthread_mutex_destroy(&context->bindings_lock);
    free(context);
}

spyre_status spyre_context_create(uint32_t card_count, spyre_context **out_context)
{
    if (card_count < 1 || card_count > DEVICE_MOST_CARDS) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%u cards: expected 1 to %d", card_count,
                          DEVICE_MOST_CARDS);
    }
    environment_check();
    spyre_context *context = calloc(1, sizeof *context);
    TRY_ALLOC(context);
    context->process = getpid();
    pthread_mutex_init(&context->bindings_lock, NULL);
    spyre_status status = start(context, card_count);
    if (status) stop(context);
    else *out_context = context;
    return status;
}

void spyre_context_destroy(spyre_context *context)
{
    // A forked child has the memory but not the threads; there is nothing to wait for.
    if (!context || context->process != getpid()) return;
    for (uint32_t n = 0; n < context->card_count; n++)
        spyre_status_free(spyre_card_synchronize(context, n));
    job_forget_context(context);
    stop(context);
}

uint32_t spyre_context_card_count(const spyre_context *context)
{
    return context->card_count;
}

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
