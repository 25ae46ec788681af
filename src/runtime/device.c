// SPDX-License-Identifier: Apache-2.0
//
// What every user of a device asks of it.
#include "runtime/device.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"

static atomic_uint forks;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static int watch_error;

static void watch(void)
{
    watch_error = pthread_atfork(NULL, NULL, count_fork);
}

bool device_watch_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    return watch_error == 0;
}

uint32_t device_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

spyre_status device_of(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                       device **out_device)
{
    if (context->forks != device_forks()) {
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
    for (uint32_t n = 0; n < d->stream_count; n++) {
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

// --- Waits that end early

static _Atomic(spyre_interrupt) interrupt;

void spyre_set_interrupt(spyre_interrupt ask)
{
    atomic_store(&interrupt, ask);
}

// Every so often a wait asks; a shorter one never does.
#define POLL_NS INT64_C(50000000)

static void sleep_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t ns)
{
    const struct timespec until = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    pthread_cond_timedwait(condition, lock, &until);
}

void device_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t by_clock;
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &by_clock);
    pthread_condattr_destroy(&by_clock);
}

void device_sleep_on(pthread_cond_t *condition, pthread_mutex_t *lock, device_wait *w)
{
    spyre_interrupt ask = w->interrupted ? NULL : atomic_load(&interrupt);
    if (!ask) {
        pthread_cond_wait(condition, lock);
        return;
    }
    if (!w->poll_ns) w->poll_ns = clock_now_ns() + POLL_NS;
    sleep_until(condition, lock, w->poll_ns);
    if (clock_now_ns() < w->poll_ns) return;
    w->poll_ns = 0;
    pthread_mutex_unlock(lock);
    w->interrupted = ask();
    pthread_mutex_lock(lock);
}

void device_sleep_asking(device *d, pthread_cond_t *condition, device_wait *w)
{
    bool before = w->interrupted;
    d->sleepers++;
    device_sleep_on(condition, &d->lock, w);
    d->sleepers--;
    if (w->interrupted && !before) device_cancel(d);
}

spyre_status device_interruption(const device_wait *w)
{
    return w->interrupted ? status_new(SPYRE_CANCELLED, "the wait was interrupted") : NULL;
}

void device_cancel(device *d)
{
    d->cancelled = d->sequence;
    if (d->computing) card_set_stop(d->machine, true);
    device_wake(d);
    for (uint64_t last = d->sequence; device_oldest_sequence(d) <= last;) device_sleep(d);
}

void device_wake(device *d)
{
    if (d->sleepers) pthread_cond_broadcast(&d->changed);
}
