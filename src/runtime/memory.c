// SPDX-License-Identifier: Apache-2.0
//
// Card memory: allocation, statistics, and frees in the order of streams. A block that is freed
// while tasks are under way waits in a list until every task submitted before the free has ended;
// only then can it be handed out again.
#include <stdlib.h>

#include "base/log.h"
#include "runtime/device.h"

// Freed blocks of this size go back to the host at once; smaller ones stay warm for reuse.
#define DISCARD_BYTES (256ULL << 20)

static void give_now(device *d, uint64_t address)
{
    const allocator_block *block = allocator_find(&d->memory, address);
    if (block && block->bytes >= DISCARD_BYTES)
        card_memory_discard(d->machine, block->address, block->bytes);
    allocator_give(&d->memory, address);
}

void memory_reclaim(device *d)
{
    uint64_t oldest = device_oldest_sequence(d);
    uint32_t done = 0;
    while (done < d->deferred_count && d->deferred[done].sequence < oldest)
        give_now(d, d->deferred[done++].address);
    if (done == 0) return;
    d->deferred_count -= done;
    for (uint32_t n = 0; n < d->deferred_count; n++) d->deferred[n] = d->deferred[n + done];
}

void memory_give_later(device *d, uint64_t address)
{
    memory_reclaim(d);
    if (device_oldest_sequence(d) > d->sequence) {
        give_now(d, address);
        return;
    }
    if (d->deferred_count == d->deferred_capacity) {
        uint32_t capacity = d->deferred_capacity ? d->deferred_capacity * 2 : 64;
        deferred_free *grown = realloc(d->deferred, capacity * sizeof *grown);
        if (!grown) {
            log_warn("no host memory to free card address 0x%llx", (unsigned long long)address);
            return;
        }
        d->deferred = grown;
        d->deferred_capacity = capacity;
    }
    d->deferred[d->deferred_count++] = (deferred_free){address, d->sequence};
}

spyre_status memory_take(device *d, int64_t bytes, uint64_t *out_address)
{
    memory_reclaim(d);
    spyre_status status = allocator_take(&d->memory, (uint64_t)bytes, out_address);
    // Memory that waits for tasks to end may be what is missing.
    while (status && d->deferred_count) {
        d->sleepers++;
        pthread_cond_wait(&d->changed, &d->lock);
        d->sleepers--;
        memory_reclaim(d);
        spyre_status_free(status);
        status = allocator_take(&d->memory, (uint64_t)bytes, out_address);
    }
    return status_at(status, "card %u", d->index);
}

spyre_status memory_window(const device *d, uint64_t address, int64_t bytes, uint64_t *out_limit)
{
    const allocator_block *block = allocator_find(&d->memory, address);
    if (!block) {
        return status_new(SPYRE_INVALID_ARGUMENT, "address 0x%llx is not allocated on card %u",
                          (unsigned long long)address, d->index);
    }
    *out_limit = block->bytes - (address - block->address);
    if (bytes < 0 || (uint64_t)bytes > *out_limit) {
        return status_new(SPYRE_INVALID_ARGUMENT,
                          "address 0x%llx: %lld bytes needed, its allocation has %llu left",
                          (unsigned long long)address, (long long)bytes,
                          (unsigned long long)*out_limit);
    }
    return NULL;
}

spyre_status spyre_memory_allocate(spyre_context *context, uint32_t card_id, int64_t bytes,
                                   uint64_t *out_address)
{
    device *d;
    TRY(device_of(context, card_id, 0, &d));
    if (bytes < 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "allocation of %lld bytes", (long long)bytes);
    }
    pthread_mutex_lock(&d->lock);
    spyre_status status = memory_take(d, bytes, out_address);
    if (!status) {
        spyre_memory_statistics *s = &d->statistics;
        s->allocated_bytes += (int64_t)allocator_find(&d->memory, *out_address)->bytes;
        if (s->allocated_bytes > s->peak_bytes) s->peak_bytes = s->allocated_bytes;
        s->allocation_count++;
        s->total_allocations++;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

static bool waits_to_be_freed(const device *d, uint64_t address)
{
    for (uint32_t n = 0; n < d->deferred_count; n++)
        if (d->deferred[n].address == address) return true;
    return false;
}

void spyre_memory_free(spyre_context *context, uint32_t card_id, uint64_t address)
{
    device *d;
    spyre_status status = device_of(context, card_id, 0, &d);
    if (status) {
        spyre_status_free(status);
        return;
    }
    pthread_mutex_lock(&d->lock);
    const allocator_block *block = allocator_find(&d->memory, address);
    bool known = block && block->address == address && !waits_to_be_freed(d, address);
    if (known) {
        d->statistics.allocated_bytes -= (int64_t)block->bytes;
        d->statistics.allocation_count--;
        d->statistics.total_frees++;
        memory_give_later(d, address);
    }
    pthread_mutex_unlock(&d->lock);
    if (!known) {
        log_warn("free of card %u address 0x%llx, which is not allocated", card_id,
                 (unsigned long long)address);
    }
}

void spyre_memory_read_statistics(spyre_context *context, uint32_t card_id,
                                  spyre_memory_statistics *out_statistics)
{
    device *d;
    *out_statistics = (spyre_memory_statistics){0};
    spyre_status status = device_of(context, card_id, 0, &d);
    if (status) {
        spyre_status_free(status);
        return;
    }
    pthread_mutex_lock(&d->lock);
    *out_statistics = d->statistics;
    out_statistics->reserved_bytes = (int64_t)allocator_reserved_bytes(&d->memory);
    out_statistics->limit_bytes = (int64_t)d->memory.limit_bytes;
    pthread_mutex_unlock(&d->lock);
}

void spyre_memory_reset_peak(spyre_context *context, uint32_t card_id)
{
    device *d;
    spyre_status status = device_of(context, card_id, 0, &d);
    if (status) {
        spyre_status_free(status);
        return;
    }
    pthread_mutex_lock(&d->lock);
    d->statistics.peak_bytes = d->statistics.allocated_bytes;
    pthread_mutex_unlock(&d->lock);
}
