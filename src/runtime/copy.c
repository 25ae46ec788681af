// SPDX-License-Identifier: Apache-2.0
//
// Transfers. What a transfer does depends only on layout, storage and dtype, so the descriptors of
// recent transfers are kept in a small direct-mapped cache.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/arena.h"
#include "base/thread.h"
#include "isa/constants.h"
#include "runtime/copy_log.h"
#include "runtime/device.h"
#include "runtime/nan_guard.h"
#include "tensor/card_copy.h"
#include "tensor/dci.h"

// Threads gain from transfers of at least DIVIDED_BYTES. Of DISCARDED_BYTES and up zeros are pages
// given back to the host, which backs them again when they are touched.
enum { CACHE_SLOTS = 128, DIVIDED_BYTES = 1 << 17, DISCARDED_BYTES = 32 << 20 };

// --- The cache

typedef struct {
    spyre_layout layout;
    spyre_view storage, view;
    spyre_dtype dtype;
    bool of_part;                       // the view is a part of the storage
    bool packed;
} transfer_key;

typedef struct {
    atomic_uint references;
    transfer_key key;
    arena *memory;
    dci descriptor;
    int64_t bytes;                      // on the card, that move
    spyre_view packed_part;             // of a packed transfer, as its host memory
    int64_t packed_elements;
    dci *parts;                         // of a large transfer, one a thread
    pool *workers;                      // null: not divided
} transfer;

struct transfer_cache {
    pthread_mutex_t lock;
    transfer *slots[CACHE_SLOTS];
    pool *workers;                      // of large transfers, started with the first
};

spyre_status transfer_cache_create(transfer_cache **out_cache)
{
    transfer_cache *cache = calloc(1, sizeof *cache);
    TRY_ALLOC(cache);
    pthread_mutex_init(&cache->lock, NULL);
    *out_cache = cache;
    return NULL;
}

static void release_transfer(transfer *t)
{
    if (!t || atomic_fetch_sub(&t->references, 1) != 1) return;
    arena_destroy(t->memory);
    free(t);
}

void transfer_cache_destroy(transfer_cache *cache)
{
    if (!cache) return;
    for (uint32_t n = 0; n < CACHE_SLOTS; n++) release_transfer(cache->slots[n]);
    pool_destroy(cache->workers);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

// Only what the ranks cover, so that equal transfers are equal bytes.
static void put_view(spyre_view *key, const spyre_view *view)
{
    key->rank = view->rank;
    key->offset = view->offset;
    memcpy(key->size, view->size, view->rank * sizeof *view->size);
    memcpy(key->stride, view->stride, view->rank * sizeof *view->stride);
}

static transfer_key make_key(const spyre_transfer *from)
{
    const spyre_layout *layout = from->layout;
    transfer_key key;
    memset(&key, 0, sizeof key);
    key.layout.rank = layout->rank;
    key.layout.format = layout->format;
    key.layout.arrangement = layout->arrangement;
    size_t device_bytes = layout->rank * sizeof *layout->device_size;
    memcpy(key.layout.device_size, layout->device_size, device_bytes);
    memcpy(key.layout.stride_map, layout->stride_map, device_bytes);
    put_view(&key.storage, from->storage);
    put_view(&key.view, from->part ? from->part : from->view ? from->view : from->storage);
    key.dtype = from->dtype;
    key.of_part = from->part != NULL;
    key.packed = from->packed;
    return key;
}

spyre_status transfer_workers(transfer_cache *cache, int64_t bytes, pool **out_workers)
{
    uint32_t threads;
    *out_workers = NULL;
    if (bytes < DIVIDED_BYTES) return NULL;
    TRY(thread_default_count(&threads));
    pthread_mutex_lock(&cache->lock);
    spyre_status status = NULL;
    if (!cache->workers && threads > 1) status = pool_create(threads, &cache->workers);
    *out_workers = cache->workers;
    pthread_mutex_unlock(&cache->lock);
    return status;
}

static spyre_status describe_transfer(transfer_cache *cache, transfer *t)
{
    const transfer_key *key = &t->key;
    t->memory = arena_create();
    TRY_ALLOC(t->memory);
    TRY(dci_build(t->memory, &key->storage, &key->layout, key->dtype, &t->descriptor));
    t->bytes = spyre_layout_bytes(&key->layout);
    if (key->of_part) {
        dci_use_part(&t->descriptor, &key->storage, &key->view);
        t->bytes = dci_card_bytes(&t->descriptor);
        if (key->packed && !dci_pack(&t->descriptor, &key->storage, &key->view, &t->packed_part,
                                     &t->packed_elements))
            return status_new(SPYRE_UNSUPPORTED, "the layout walks along several dims at once");
    } else if (memcmp(&key->storage, &key->view, sizeof key->view) != 0) {
        TRY(dci_use_host_view(&t->descriptor, &key->storage, &key->view));
    }
    TRY(transfer_workers(cache, t->bytes, &t->workers));
    if (!t->workers) return NULL;
    t->parts = ARENA_NEW(t->memory, dci, pool_threads(t->workers));
    TRY_ALLOC(t->parts);
    return dci_divide(t->memory, &t->descriptor, pool_threads(t->workers), t->parts);
}

static spyre_status build_transfer(transfer_cache *cache, const transfer_key *key,
                                   transfer **out_transfer)
{
    transfer *t = calloc(1, sizeof *t);
    TRY_ALLOC(t);
    atomic_init(&t->references, 1);
    t->key = *key;
    spyre_status status = describe_transfer(cache, t);
    if (status) release_transfer(t);
    else *out_transfer = t;
    return status;
}

// The caller releases the transfer.
static spyre_status find_transfer(transfer_cache *cache, const transfer_key *key,
                                  transfer **out_transfer)
{
    transfer **slot = &cache->slots[XXH3_64bits(key, sizeof *key) % CACHE_SLOTS];
    pthread_mutex_lock(&cache->lock);
    transfer *found = *slot;
    bool hit = found && memcmp(&found->key, key, sizeof *key) == 0;
    if (hit) atomic_fetch_add(&found->references, 1);
    pthread_mutex_unlock(&cache->lock);
    if (hit) {
        *out_transfer = found;
        return NULL;
    }
    TRY(build_transfer(cache, key, &found));
    atomic_fetch_add(&found->references, 1);
    pthread_mutex_lock(&cache->lock);
    transfer *old = *slot;
    *slot = found;
    pthread_mutex_unlock(&cache->lock);
    release_transfer(old);
    *out_transfer = found;
    return NULL;
}

double transfer_us(int64_t bytes)
{
    return (double)bytes / 63015.0;     // PCIe 5.0 x16: 32 GT/s, 128b/130b coding, 16 lanes
}

// --- Host and card

typedef struct {
    task base;
    uint64_t address;
    const transfer *transfer;
    void *card_bytes;
    void *host;                         // written by copies to the host only
    const void *host_source;
    bool watches;                       // for integers that wrap
    atomic_bool wrapped;
} copy_task;

static spyre_status prepare_copy(device *d, task *t)
{
    const copy_task *self = (const copy_task *)(const void *)t;
    const transfer_key *key = &self->transfer->key;
    int64_t bytes = spyre_layout_bytes(&key->layout);
    TRY(memory_claim(d, t, self->address, bytes, self->host != NULL));
    if (!self->host && !key->of_part) memory_restore(d, self->address, bytes);
    return NULL;
}

static spyre_status move(copy_task *self, const dci *descriptor)
{
    bool wrapped = false;
    if (self->host) return dci_to_host(descriptor, self->host, self->card_bytes);
    if (!self->watches) return dci_to_card(descriptor, self->card_bytes, self->host_source);
    TRY(dci_to_card_watched(descriptor, self->card_bytes, self->host_source, &wrapped));
    if (wrapped) self->wrapped = true;
    return NULL;
}

static void move_part(void *context, size_t index, uint32_t worker)
{
    (void)worker;
    copy_task *self = context;
    // Parts fail as the whole does, which has been looked up before.
    spyre_status_free(move(self, &self->transfer->parts[index]));
}

static spyre_status run_copy(device *d, task *t)
{
    (void)d;
    copy_task *self = (copy_task *)(void *)t;
    const transfer *found = self->transfer;
    if (!found->workers) return move(self, &found->descriptor);
    pool_run(found->workers, pool_threads(found->workers), move_part, self);
    return NULL;
}

static spyre_status check_rank(const spyre_view *view, const char *what)
{
    if (!view || view->rank <= SPYRE_MAX_RANK) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%s of rank %u: at most %d", what, view->rank,
                      SPYRE_MAX_RANK);
}

static spyre_status check_transfer(const spyre_transfer *t)
{
    TRY(spyre_layout_check(t->layout));
    TRY(check_rank(t->storage, "storage"));
    TRY(check_rank(t->view, "view"));
    TRY(check_rank(t->part, "part"));
    if (t->packed && !t->part) return status_new(SPYRE_INVALID_ARGUMENT, "packed without a part");
    if (!t->view || !t->part) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "both a view and a part: at most one");
}

static spyre_status copy(spyre_context *context, const spyre_transfer *asked, copy_task *self)
{
    device *d;
    TRY(check_transfer(asked));
    TRY(device_of(context, asked->card, asked->stream, &d));
    transfer_key key = make_key(asked);
    transfer *found;
    TRY(find_transfer(context->transfers, &key, &found));
    if (self->host_source) {
        const spyre_view *view = key.packed ? &found->packed_part : &key.view;
        spyre_status nans =
            nan_guard_check(key.layout.format, key.dtype, view, self->host_source);
        if (nans) {
            release_transfer(found);
            return nans;
        }
    }
    int64_t bytes = spyre_layout_bytes(&key.layout);
    self->address = asked->address;
    self->transfer = found;
    self->card_bytes = card_memory(d->machine, asked->address, (uint64_t)bytes);
    self->base.prepare = prepare_copy;
    self->base.run = run_copy;
    self->base.waits = true;
    self->base.bytes = found->bytes;
    self->base.card_us = transfer_us(found->bytes);
    spyre_status status = device_submit(d, asked->stream, &self->base, true);
    if (copy_log_enabled())
        copy_log_write(self->host ? "to host" : "to card", asked, &found->descriptor, status);
    release_transfer(found);
    return status;
}

spyre_status spyre_transfer_pack(spyre_context *context, const spyre_transfer *asked,
                                 spyre_view *out_part, int64_t *out_elements)
{
    TRY(check_transfer(asked));
    transfer_key key = make_key(asked);
    transfer *found;
    key.packed = true;
    if (!key.of_part) return status_new(SPYRE_INVALID_ARGUMENT, "packed without a part");
    TRY(find_transfer(context->transfers, &key, &found));
    *out_part = found->packed_part;
    *out_elements = found->packed_elements;
    release_transfer(found);
    return NULL;
}

spyre_status spyre_copy_to_card(spyre_context *context, const spyre_transfer *asked,
                                const void *host)
{
    copy_task self = {.host_source = host, .watches = asked->out_wrapped != NULL};
    self.base.recorded = true;
    self.base.kind = SPYRE_ACTIVITY_COPY_TO_CARD;
    self.base.resource = CLOCK_TO_CARD;
    TRY(status_at(copy(context, asked, &self), "copy to card"));
    if (self.watches) *asked->out_wrapped = self.wrapped;
    return NULL;
}

spyre_status spyre_copy_to_host(spyre_context *context, const spyre_transfer *asked, void *host)
{
    copy_task self = {.host = host};
    self.base.recorded = true;
    self.base.kind = SPYRE_ACTIVITY_COPY_TO_HOST;
    self.base.resource = CLOCK_TO_HOST;
    return status_at(copy(context, asked, &self), "copy to host");
}

// --- Inside the card

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
        TRY(check_rank(views[n]->view, "view"));
        self->address[n] = views[n]->address;
        self->bytes[n] = spyre_layout_bytes(views[n]->layout);
    }
    if (!card_copy_build(&(laid_view){target->layout, target->dense, target->view},
                         &(laid_view){source->layout, source->dense, source->view}, &self->copy))
        return status_new(SPYRE_UNSUPPORTED, "a view along several dims of a layout at once");
    self->whole = element_count(target->view) == element_count(target->dense);
    return transfer_workers(context->transfers, self->copy.bytes, &self->workers);
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
