// SPDX-License-Identifier: Apache-2.0
//
// Records of launches and transfers for profilers: a bounded queue, the oldest dropped first.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "runtime/device.h"

enum { MOST_RECORDS = 1 << 16 };

struct record_list {
    atomic_bool enabled;
    pthread_mutex_t lock;
    spyre_activity *items;          // a ring of MOST_RECORDS; null until enabled
    uint32_t first, count;
    uint64_t correlation;
};

double record_now_us(void)
{
    return (double)clock_now_ns() * 1e-3;
}

spyre_status record_list_create(record_list **out_records)
{
    record_list *records = calloc(1, sizeof *records);
    TRY_ALLOC(records);
    pthread_mutex_init(&records->lock, NULL);
    *out_records = records;
    return NULL;
}

void record_list_destroy(record_list *records)
{
    if (!records) return;
    pthread_mutex_destroy(&records->lock);
    free(records->items);
    free(records);
}

static void append(record_list *records, spyre_activity record)
{
    record.correlation = ++records->correlation;
    if (records->count == MOST_RECORDS) {
        records->first = (records->first + 1) % MOST_RECORDS;
        records->count--;
    }
    records->items[(records->first + records->count++) % MOST_RECORDS] = record;
}

void record_task(spyre_context *context, const device *d, const task *t)
{
    record_list *records = context->records;
    if (!atomic_load_explicit(&records->enabled, memory_order_relaxed)) return;
    spyre_activity record = {
        .card = d->index,
        .stream = t->stream,
        .host_begin_us = t->host_begin_us,
        .host_end_us = record_now_us(),
        .card_begin_us = t->card_begin_us,
        .card_end_us = t->card_end_us,
        .bytes = t->bytes,
    };
    snprintf(record.kind, sizeof record.kind, "%s", t->kind);
    snprintf(record.name, sizeof record.name, "%s", t->name ? t->name : "");
    pthread_mutex_lock(&records->lock);
    if (records->items) append(records, record);
    pthread_mutex_unlock(&records->lock);
}

void spyre_events_enable(spyre_context *context, bool enabled)
{
    record_list *records = context->records;
    pthread_mutex_lock(&records->lock);
    if (enabled && !records->items) records->items = calloc(MOST_RECORDS, sizeof *records->items);
    atomic_store(&records->enabled, enabled && records->items);
    pthread_mutex_unlock(&records->lock);
}

uint32_t spyre_events_take(spyre_context *context, spyre_activity *out_records,
                           uint32_t capacity)
{
    record_list *records = context->records;
    pthread_mutex_lock(&records->lock);
    uint32_t taken = capacity < records->count ? capacity : records->count;
    for (uint32_t n = 0; n < taken; n++)
        out_records[n] = records->items[(records->first + n) % MOST_RECORDS];
    records->first = (records->first + taken) % MOST_RECORDS;
    records->count -= taken;
    pthread_mutex_unlock(&records->lock);
    return taken;
}
