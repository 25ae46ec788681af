// SPDX-License-Identifier: Apache-2.0
//
// Copies within a card's memory: of bytes, of pieces of storages, of views of storages.
#include <stdlib.h>
#include <string.h>

#include "base/thread_pool.h"
#include "isa/constants.h"
#include "runtime/device.h"
#include "tensor/card_copy.h"

// Zeros of so many bytes and more are pages given back to the host, which backs them again when
// they are touched.
enum { DISCARDED_BYTES = 32 << 20 };

// --- Bytes

typedef struct {
    task base;
    uint64_t target_address, source_address;
    void *target;
    const void *source;                 // null: zero
} raw_task;

// As a kernel that copies or fills: docs/card.md, "Memory".
static double raw_us(double bytes, bool copies)
{
    if (!copies) return bytes / MEMORY_BANDWIDTH;
    return 2 * bytes / MEMORY_BANDWIDTH + bytes * MEMORY_TURNAROUND;
}

static spyre_status prepare_raw(device *d, task *t)
{
    raw_task *self = (raw_task *)(void *)t;
    TRY(status_at(memory_claim(d, t, self->target_address, t->bytes, false), "raw copy"));
    if (self->source)
        TRY(status_at(memory_claim(d, t, self->source_address, t->bytes, true), "raw copy"));
    memory_restore(d, self->target_address, t->bytes);
    return NULL;
}

static void lose_target(device *d, task *t)
{
    memory_lose(d, ((const raw_task *)(const void *)t)->target_address);
}

static spyre_status run_raw(device *d, task *t)
{
    raw_task *self = (raw_task *)(void *)t;
    if (self->source) memmove(self->target, self->source, (size_t)t->bytes);
    else if (t->bytes < DISCARDED_BYTES) memset(self->target, 0, (size_t)t->bytes);
    else card_memory_discard(d->machine, self->target_address, (uint64_t)t->bytes);
    return NULL;
}

static void release_raw(task *t)
{
    free(t);
}

spyre_status spyre_copy_raw(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                            uint64_t target, uint64_t source, int64_t bytes)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    raw_task *self = calloc(1, sizeof *self);
    TRY_ALLOC(self);
    self->target_address = target;
    self->source_address = source;
    self->target = card_memory(d->machine, target, (uint64_t)bytes);
    self->source = source ? card_memory(d->machine, source, (uint64_t)bytes) : NULL;
    self->base.prepare = prepare_raw;
    self->base.run = run_raw;
    self->base.cancelled = lose_target;
    self->base.release = release_raw;
    self->base.recorded = true;
    self->base.kind = source ? SPYRE_ACTIVITY_COPY_ON_CARD : SPYRE_ACTIVITY_FILL;
    self->base.bytes = bytes;
    self->base.card_us = raw_us((double)bytes, source != 0);
    return device_submit(d, stream_id, &self->base, true);
}

// --- Pieces of storages

typedef struct {
    task base;
    uint64_t target_address, source_address;
    int64_t target_bytes, source_bytes; // from the address on, that pieces touch
    char *target;
    const char *source;
    uint32_t count;
    spyre_piece pieces[];
} pieces_task;

static spyre_status prepare_pieces(device *d, task *t)
{
    const pieces_task *self = (const pieces_task *)(const void *)t;
    TRY(status_at(memory_claim(d, t, self->target_address, self->target_bytes, false),
                  "copy of pieces"));
    return status_at(memory_claim(d, t, self->source_address, self->source_bytes, true),
                     "copy of pieces");
}

static spyre_status run_pieces(device *d, task *t)
{
    (void)d;
    const pieces_task *self = (const pieces_task *)(const void *)t;
    for (uint32_t i = 0; i < self->count; i++) {
        const spyre_piece *p = &self->pieces[i];
        memmove(self->target + p->target, self->source + p->source, (size_t)p->bytes);
    }
    return NULL;
}

// Bytes that the pieces touch of both storages, and that they move. INVALID_ARGUMENT for negative
// ones.
static spyre_status measure_pieces(pieces_task *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        const spyre_piece *p = &self->pieces[i];
        if (p->target < 0 || p->source < 0 || p->bytes < 0)
            return status_new(SPYRE_INVALID_ARGUMENT, "piece %u: a negative offset or size", i);
        if (p->target + p->bytes > self->target_bytes) self->target_bytes = p->target + p->bytes;
        if (p->source + p->bytes > self->source_bytes) self->source_bytes = p->source + p->bytes;
        self->base.bytes += p->bytes;
    }
    return NULL;
}

spyre_status spyre_copy_pieces(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                               uint64_t target, uint64_t source, const spyre_piece *pieces,
                               uint32_t count)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    if (count == 0) return NULL;
    pieces_task *self = calloc(1, sizeof *self + count * sizeof *pieces);
    TRY_ALLOC(self);
    self->count = count;
    memcpy(self->pieces, pieces, count * sizeof *pieces);
    spyre_status status = measure_pieces(self);
    if (status) {
        free(self);
        return status;
    }
    self->target_address = target;
    self->source_address = source;
    self->target = card_memory(d->machine, target, (uint64_t)self->target_bytes);
    self->source = card_memory(d->machine, source, (uint64_t)self->source_bytes);
    self->base.prepare = prepare_pieces;
    self->base.run = run_pieces;
    self->base.release = release_raw;
    self->base.recorded = true;
    self->base.kind = SPYRE_ACTIVITY_COPY_ON_CARD;
    self->base.card_us = raw_us((double)self->base.bytes, true);
    return device_submit(d, stream_id, &self->base, true);
}

// --- Views of storages

typedef struct {
    task base;
    uint64_t address[2];                // target, source
    int64_t bytes[2];                   // of the storages
    char *target;
    const char *source;
    bool whole;                         // all of the target is written
    pool *workers;                      // null: not divided
    card_copy copy;
} views_task;

static spyre_status prepare_views(device *d, task *t)
{
    const views_task *self = (const views_task *)(const void *)t;
    TRY(status_at(memory_claim(d, t, self->address[0], self->bytes[0], false), "copy of a view"));
    TRY(status_at(memory_claim(d, t, self->address[1], self->bytes[1], true), "copy of a view"));
    if (self->whole) memory_restore(d, self->address[0], self->bytes[0]);
    return NULL;
}

static void run_view_part(void *context, size_t index, uint32_t worker)
{
    (void)worker;
    const views_task *self = context;
    card_copy_run(&self->copy, self->target, self->source, (uint32_t)index,
                  pool_threads(self->workers));
}

static spyre_status run_views(device *d, task *t)
{
    (void)d;
    views_task *self = (views_task *)(void *)t;
    if (self->workers)
        pool_run(self->workers, pool_threads(self->workers), run_view_part, self);
    else
        card_copy_run(&self->copy, self->target, self->source, 0, 1);
    return NULL;
}

static int64_t element_count(const spyre_view *view)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) count *= view->size[i];
    return count;
}

static spyre_status describe_views(spyre_context *context, views_task *self,
                                   const spyre_card_view *target, const spyre_card_view *source)
{
    const spyre_card_view *views[] = {target, source};
    for (uint32_t n = 0; n < 2; n++) {
        TRY(spyre_layout_check(views[n]->layout));
        TRY(transfer_check_rank(views[n]->view, "view"));
        self->address[n] = views[n]->address;
        self->bytes[n] = spyre_layout_bytes(views[n]->layout);
    }
    if (!card_copy_build(&(laid_view){target->layout, target->dense, target->view},
                         &(laid_view){source->layout, source->dense, source->view}, &self->copy))
        return status_new(SPYRE_UNSUPPORTED, "a view along several dims of a layout at once");
    self->whole = element_count(target->view) == element_count(target->dense);
    return copy_threads_for(&context->copy_threads, self->copy.bytes, &self->workers);
}

spyre_status spyre_copy_views(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                              const spyre_card_view *target, const spyre_card_view *source)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    views_task *self = calloc(1, sizeof *self);
    TRY_ALLOC(self);
    spyre_status status = describe_views(context, self, target, source);
    if (status) {
        free(self);
        return status;
    }
    self->target = card_memory(d->machine, target->address, (uint64_t)self->bytes[0]);
    self->source = card_memory(d->machine, source->address, (uint64_t)self->bytes[1]);
    self->base.prepare = prepare_views;
    self->base.run = run_views;
    self->base.release = release_raw;
    self->base.recorded = true;
    self->base.kind = SPYRE_ACTIVITY_COPY_ON_CARD;
    self->base.bytes = self->copy.bytes;
    self->base.card_us = raw_us((double)self->copy.bytes, true);
    return device_submit(d, stream_id, &self->base, true);
}
