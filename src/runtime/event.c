// SPDX-License-Identifier: Apache-2.0
//
// Events. Recording takes a new number and puts a task into the stream that completes it; waiting
// puts a task into another stream that is ready once the number is complete. A number counts as
// recorded when its task has been accepted, so no thread waits for one that will never complete.
// An event has its own lock and outlives streams and context.
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/device.h"

struct spyre_event {
    atomic_uint references;
    pthread_mutex_t lock;
    pthread_cond_t completed_changed;
    uint64_t taken, recorded, completed;
    double card_us;                     // of the last completed recording
    const spyre_context *context;       // of the last recording
};

typedef struct {
    task base;
    spyre_event *event;
    uint64_t number;
} event_task;

static spyre_event *event_create(void)
{
    spyre_event *event = calloc(1, sizeof *event);
    if (!event) return NULL;
    atomic_init(&event->references, 1);
    pthread_mutex_init(&event->lock, NULL);
    device_condition_init(&event->completed_changed);
    return event;
}

void spyre_event_destroy(spyre_event *event)
{
    if (!event || atomic_fetch_sub(&event->references, 1) != 1) return;
    pthread_cond_destroy(&event->completed_changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static void release_event_task(task *t)
{
    event_task *self = (event_task *)(void *)t;
    spyre_event_destroy(self->event);
    free(self);
}

static event_task *event_task_create(spyre_event *event, uint64_t number)
{
    event_task *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    self->event = event;
    self->number = number;
    self->base.release = release_event_task;
    self->base.survives_errors = true;
    atomic_fetch_add(&event->references, 1);
    return self;
}

// Streams of other cards may wait for the event.
static void wake_other_cards(device *d)
{
    spyre_context *context = d->context;
    for (uint32_t n = 0; n < context->card_count; n++) {
        device *other = &context->devices[n];
        if (other == d) continue;
        pthread_mutex_lock(&other->lock);
        device_wake(other);
        pthread_mutex_unlock(&other->lock);
    }
}

static spyre_status complete(device *d, task *t)
{
    event_task *self = (event_task *)(void *)t;
    pthread_mutex_lock(&self->event->lock);
    if (self->number > self->event->completed) {
        self->event->completed = self->number;
        self->event->card_us = t->card_end_us;
    }
    pthread_cond_broadcast(&self->event->completed_changed);
    pthread_mutex_unlock(&self->event->lock);
    wake_other_cards(d);
    return NULL;
}

static bool is_complete(const spyre_event *event, uint64_t number, double *out_card_us)
{
    spyre_event *e = (spyre_event *)(uintptr_t)event;   // the lock is not part of its value
    pthread_mutex_lock(&e->lock);
    bool done = e->completed >= number;
    if (out_card_us) *out_card_us = e->card_us;
    pthread_mutex_unlock(&e->lock);
    return done;
}

static bool wait_ready(const task *t)
{
    const event_task *self = (const event_task *)(const void *)t;
    return is_complete(self->event, self->number, NULL);
}

// The waiting stream continues at the event's place on the virtual clock.
static spyre_status join_clock(device *d, task *t)
{
    event_task *self = (event_task *)(void *)t;
    double card_us;
    is_complete(self->event, self->number, &card_us);
    pthread_mutex_lock(&d->lock);
    device_stream *s = &d->streams[t->stream];
    if (s->card_us < card_us) s->card_us = card_us;
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static uint64_t take_number(spyre_event *event)
{
    pthread_mutex_lock(&event->lock);
    uint64_t number = ++event->taken;
    pthread_mutex_unlock(&event->lock);
    return number;
}

static void note_recorded(spyre_event *event, uint64_t number, const spyre_context *context)
{
    pthread_mutex_lock(&event->lock);
    if (number > event->recorded) {
        event->recorded = number;
        event->context = context;
    }
    pthread_mutex_unlock(&event->lock);
}

static spyre_status record(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                           spyre_event *event)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    uint64_t number = take_number(event);
    event_task *self = event_task_create(event, number);
    TRY_ALLOC(self);
    self->base.run = complete;
    TRY(device_submit(d, stream_id, &self->base, true));
    note_recorded(event, number, context);
    return NULL;
}

spyre_status spyre_event_record(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                                spyre_event **event)
{
    bool fresh = *event == NULL;
    if (fresh) *event = event_create();
    TRY_ALLOC(*event);
    spyre_status status = record(context, card_id, stream_id, *event);
    if (status && fresh) {
        spyre_event_destroy(*event);
        *event = NULL;
    }
    return status;
}

spyre_status spyre_event_wait(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                              spyre_event *event)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    pthread_mutex_lock(&event->lock);
    uint64_t number = event->recorded;
    bool foreign = event->context != context;
    pthread_mutex_unlock(&event->lock);
    if (number == 0) return NULL;
    if (foreign)
        return status_new(SPYRE_INVALID_ARGUMENT, "the event was recorded in another context");
    event_task *self = event_task_create(event, number);
    TRY_ALLOC(self);
    self->base.run = join_clock;
    self->base.ready = wait_ready;
    return device_submit(d, stream_id, &self->base, true);
}

double spyre_event_clock_us(const spyre_event *event)
{
    double card_us;
    is_complete(event, 0, &card_us);
    return card_us;
}

bool spyre_event_query(const spyre_event *event)
{
    spyre_event *e = (spyre_event *)(uintptr_t)event;
    pthread_mutex_lock(&e->lock);
    bool done = e->completed >= e->recorded;
    pthread_mutex_unlock(&e->lock);
    return done;
}

spyre_status spyre_event_synchronize(const spyre_event *event)
{
    spyre_event *e = (spyre_event *)(uintptr_t)event;
    device_wait w = {0};
    pthread_mutex_lock(&e->lock);
    uint64_t number = e->recorded;
    while (e->completed < number && !w.interrupted)
        device_sleep_on(&e->completed_changed, &e->lock, &w);
    pthread_mutex_unlock(&e->lock);
    return device_interruption(&w);
}

double spyre_event_elapsed_ms(const spyre_event *begin, const spyre_event *end)
{
    double from, to;
    is_complete(begin, 0, &from);
    is_complete(end, 0, &to);
    return (to - from) * 1e-3;
}
