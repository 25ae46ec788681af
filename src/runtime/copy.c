// SPDX-License-Identifier: Apache-2.0
//
// Transfers between host and card. What a transfer does depends only on layout, storage and dtype,
// so the descriptors of recent transfers are kept in a small direct-mapped cache.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "isa/constants.h"
#include "runtime/copy_log.h"
#include "runtime/device.h"
#include "runtime/nan_guard.h"
#include "tensor/dci.h"

enum { CACHE_SLOTS = 128 };

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

static spyre_status describe_transfer(spyre_context *context, transfer *t)
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
    TRY(copy_threads_for(&context->copy_threads, t->bytes, &t->workers));
    if (!t->workers) return NULL;
    t->parts = ARENA_NEW(t->memory, dci, pool_threads(t->workers));
    TRY_ALLOC(t->parts);
    return dci_divide(t->memory, &t->descriptor, pool_threads(t->workers), t->parts);
}

static spyre_status build_transfer(spyre_context *context, const transfer_key *key,
                                   transfer **out_transfer)
{
    transfer *t = calloc(1, sizeof *t);
    TRY_ALLOC(t);
    atomic_init(&t->references, 1);
    t->key = *key;
    spyre_status status = describe_transfer(context, t);
    if (status) release_transfer(t);
    else *out_transfer = t;
    return status;
}

// The caller releases the transfer.
static spyre_status find_transfer(spyre_context *context, const transfer_key *key,
                                  transfer **out_transfer)
{
    transfer_cache *cache = context->transfers;
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
    TRY(build_transfer(context, key, &found));
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

spyre_status transfer_check_rank(const spyre_view *view, const char *what)
{
    if (!view || view->rank <= SPYRE_MAX_RANK) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%s of rank %u: at most %d", what, view->rank,
                      SPYRE_MAX_RANK);
}

static spyre_status check_transfer(const spyre_transfer *t)
{
    TRY(spyre_layout_check(t->layout));
    TRY(transfer_check_rank(t->storage, "storage"));
    TRY(transfer_check_rank(t->view, "view"));
    TRY(transfer_check_rank(t->part, "part"));
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
    TRY(find_transfer(context, &key, &found));
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
    TRY(find_transfer(context, &key, &found));
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
