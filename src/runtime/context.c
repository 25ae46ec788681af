// SPDX-License-Identifier: Apache-2.0
//
// Opening and closing the emulated cards of a process.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/thread_pool.h"
#include "base/variable.h"
#include "runtime/profile.h"
#include "runtime/metrics.h"

// --- One card

#define MEMORY_LIMIT "SPYRE_MEMORY_LIMIT_GB"

// `*out_bytes` stays when the variable is not set.
static spyre_status read_gigabytes(const char *variable, uint64_t least, uint64_t *out_bytes)
{
    const char *given = variable_text(variable);
    if (!given) return NULL;
    char *end;
    double value = strtod(given, &end);
    uint64_t bytes = value >= 0 && value <= 1024 ? (uint64_t)(value * (double)(1 << 30)) : 0;
    bool plain = !*end && strspn(given, "0123456789.") == strlen(given) && end != given;
    if (!plain || value > 1024 || bytes < least) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "%s=%s: expected a number of GiB, %s and at most 1024", variable, given,
                          least ? "above 0" : "0 or more");
    }
    *out_bytes = bytes;
    return NULL;
}

// A quarter of the host's memory.
static uint64_t default_cache_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return UINT64_C(1) << 30;
    return (uint64_t)pages / 4 * (uint64_t)page_bytes;
}

spyre_status spyre_memory_limit(int64_t *out_bytes)
{
    uint64_t limit = ALLOCATOR_MOST_BYTES;
    TRY(read_gigabytes(MEMORY_LIMIT, ALLOCATOR_BLOCK_BYTES, &limit));
    *out_bytes = (int64_t)(limit < ALLOCATOR_MOST_BYTES ? limit : ALLOCATOR_MOST_BYTES);
    return NULL;
}

static spyre_status device_start(device *d, spyre_context *context, uint32_t index)
{
    d->context = context;
    d->index = index;
    int64_t limit = 0;
    d->cache_limit_bytes = default_cache_limit();
    TRY(spyre_memory_limit(&limit));
    TRY(read_gigabytes("SPYRE_CACHE_LIMIT_GB", 0, &d->cache_limit_bytes));
    TRY(allocator_create(&d->memory));
    allocator_limit(&d->memory, (uint64_t)limit, MEMORY_LIMIT);
    spyre_status status = card_create(&d->machine);
    if (!status) {
        status = metrics_open(d, &d->metrics);
        if (status) card_destroy(d->machine);
    }
    if (status) {
        allocator_destroy(&d->memory);
        return status_at(status, "card %u", index);
    }
    pthread_mutex_init(&d->lock, NULL);
    device_condition_init(&d->changed);
    device_condition_init(&d->room);
    return NULL;
}

static void device_stop(device *d)
{
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (d->worker_runs) pthread_join(d->worker, NULL);
    for (uint32_t n = 0; n < DEVICE_STREAMS; n++) spyre_status_free(d->streams[n].error);
    card_destroy(d->machine);
    allocator_destroy(&d->memory);
    memory_forget(d);
    metrics_close(d->metrics);
    pthread_cond_destroy(&d->room);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
}

// --- All cards

static spyre_status start(spyre_context *context, uint32_t card_count)
{
    TRY(profile_list_create(&context->records));
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
    copy_threads_close(&context->copy_threads);
    profile_list_destroy(context->records);
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
    if (!device_watch_forks()) return status_no_memory();
    spyre_context *context = calloc(1, sizeof *context);
    TRY_ALLOC(context);
    context->process = getpid();
    context->forks = device_forks();
    pthread_mutex_init(&context->bindings_lock, NULL);
    copy_threads_open(&context->copy_threads);
    spyre_status status = start(context, card_count);
    if (status) stop(context);
    else *out_context = context;
    return status;
}

void spyre_context_destroy(spyre_context *context)
{
    // A forked child has the memory but not the threads; there is nothing to wait for.
    if (!context || context->forks != device_forks()) return;
    for (uint32_t n = 0; n < context->card_count; n++)
        spyre_status_free(spyre_card_synchronize(context, n));
    job_forget_context(context);
    stop(context);
}

void spyre_use_thread_team(spyre_thread_team team)
{
    thread_use_team(team);
}
