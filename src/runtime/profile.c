// SPDX-License-Identifier: Apache-2.0
//
// Records for profilers. A task gets its correlation when it is submitted, by which it is known
// that a profiler wants its records; they are written by the thread that runs it.
#include "runtime/profile.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum { FIRST_RECORDS = 1024 };

struct profile_list {
    atomic_bool enabled;
    atomic_uint_fast64_t correlation;
    pthread_mutex_t lock;
    spyre_activity *items;              // a ring: record n at (first + n) % capacity
    uint32_t first, count, capacity;
    uint64_t lost;
};

static _Thread_local uint64_t tag_of_thread;

double profile_now_us(void)
{
    return (double)clock_now_ns() * 1e-3;
}

spyre_status profile_list_create(profile_list **out_records)
{
    profile_list *records = calloc(1, sizeof *records);
    TRY_ALLOC(records);
    pthread_mutex_init(&records->lock, NULL);
    *out_records = records;
    return NULL;
}

void profile_list_destroy(profile_list *records)
{
    if (!records) return;
    pthread_mutex_destroy(&records->lock);
    free(records->items);
    free(records);
}

static void copy_first(const profile_list *records, uint32_t count, spyre_activity *out)
{
    if (count == 0) return;
    uint32_t straight = records->capacity - records->first;
    if (straight > count) straight = count;
    memcpy(out, records->items + records->first, straight * sizeof *out);
    memcpy(out + straight, records->items, (count - straight) * sizeof *out);
}

static bool make_room(profile_list *records)
{
    if (records->count < records->capacity) return true;
    if (records->capacity == SPYRE_PROFILE_MOST) return false;
    uint32_t capacity = records->capacity ? 2 * records->capacity : FIRST_RECORDS;
    spyre_activity *grown = malloc(capacity * sizeof *grown);
    if (!grown) return false;
    copy_first(records, records->count, grown);
    free(records->items);
    records->items = grown;
    records->first = 0;
    records->capacity = capacity;
    return true;
}

static void forget_first(profile_list *records, uint32_t count)
{
    records->count -= count;
    if (records->count) {
        records->first = (records->first + count) % records->capacity;
        return;
    }
    free(records->items);
    records->items = NULL;
    records->first = records->capacity = 0;
}

void profile_append(profile_list *records, const spyre_activity *record)
{
    pthread_mutex_lock(&records->lock);
    if (make_room(records))
        records->items[(records->first + records->count++) % records->capacity] = *record;
    else records->lost++;
    pthread_mutex_unlock(&records->lock);
}

// --- Tasks

bool profile_is_on(const device *d)
{
    return atomic_load_explicit(&d->context->records->enabled, memory_order_relaxed);
}

bool profile_begin(const device *d, task *t, spyre_activity *out_submission)
{
    profile_list *records = d->context->records;
    t->correlation = 0;
    if (!t->recorded || !profile_is_on(d)) return false;
    t->correlation = atomic_fetch_add(&records->correlation, 1) + 1;
    *out_submission = (spyre_activity){
        .kind = t->kind,
        .submission = true,
        .card = d->index,
        .stream = t->stream,
        .thread = (int32_t)syscall(SYS_gettid),
        .correlation = t->correlation,
        .tag = tag_of_thread,
        .submitted_us = profile_now_us(),
        .bytes = t->bytes,
        .runs = 1,
    };
    out_submission->host_begin_us = out_submission->submitted_us;
    snprintf(out_submission->name, sizeof out_submission->name, "%s", t->name ? t->name : "");
    t->thread = out_submission->thread;
    t->tag = out_submission->tag;
    t->submitted_host_us = out_submission->submitted_us;
    return true;
}

void profile_submitted(const device *d, spyre_activity *submission)
{
    submission->host_end_us = profile_now_us();
    profile_append(d->context->records, submission);
}

void profile_of_task(const device *d, const task *t, double host_begin_us)
{
    spyre_activity record = {
        .kind = t->kind,
        .card = d->index,
        .stream = t->stream,
        .thread = t->thread,
        .correlation = t->correlation,
        .tag = t->tag,
        .submitted_us = t->submitted_host_us,
        .host_begin_us = host_begin_us,
        .host_end_us = profile_now_us(),
        .card_begin_us = t->card_begin_us,
        .card_end_us = t->card_end_us,
        .bytes = t->bytes,
        .runs = 1,
    };
    snprintf(record.name, sizeof record.name, "%s", t->name ? t->name : "");
    profile_append(d->context->records, &record);
    if (t->tell_inside) t->tell_inside(t, &record, d->context->records);
}

// --- The public side

void spyre_profile_enable(spyre_context *context, bool enabled)
{
    atomic_store(&context->records->enabled, enabled);
}

uint32_t spyre_profile_take(spyre_context *context, spyre_activity *out_records,
                            uint32_t capacity)
{
    profile_list *records = context->records;
    pthread_mutex_lock(&records->lock);
    uint32_t taken = capacity < records->count ? capacity : records->count;
    copy_first(records, taken, out_records);
    forget_first(records, taken);
    pthread_mutex_unlock(&records->lock);
    return taken;
}

uint64_t spyre_profile_lost(spyre_context *context)
{
    profile_list *records = context->records;
    pthread_mutex_lock(&records->lock);
    uint64_t lost = records->lost;
    records->lost = 0;
    pthread_mutex_unlock(&records->lock);
    return lost;
}

void spyre_profile_tag(uint64_t tag)
{
    tag_of_thread = tag;
}
