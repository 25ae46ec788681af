// SPDX-License-Identifier: Apache-2.0
//
// Card memory: allocation, statistics, and frees in the order of streams. A block that is freed
// while tasks are under way waits in a list until every task submitted before the free has ended;
// only then can it be handed out again.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/composite_allocation.h"
#include "runtime/metrics.h"

static void discard(void *machine, uint64_t address, uint64_t bytes)
{
    card_memory_discard(machine, address, bytes);
}

static void give_now(device *d, uint64_t address)
{
    const allocator_block *block = allocator_find(&d->memory, address);
    if (block && block->kind == ALLOCATOR_RANGE) composite_give(d, address);
    else allocator_give(&d->memory, address);
    allocator_trim(&d->memory, d->cache_limit_bytes, discard, d->machine);
}

// --- Freed blocks that tasks may still touch

static bool add_waiting(waiting_list *list, waiting_block block)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 64;
        waiting_block *grown = realloc(list->items, capacity * sizeof *grown);
        if (!grown) return false;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = block;
    return true;
}

static void remove_waiting(waiting_list *list, uint32_t at, uint32_t count)
{
    list->count -= count;
    memmove(&list->items[at], &list->items[at + count], (list->count - at) * sizeof *list->items);
}

static void reclaim(device *d, waiting_list *list, uint64_t oldest)
{
    uint32_t done = 0;
    while (done < list->count && list->items[done].sequence < oldest)
        give_now(d, list->items[done++].address);
    if (done) remove_waiting(list, 0, done);
}

static void reclaim_all(device *d)
{
    for (uint32_t n = 0; n < d->stream_count; n++) {
        device_stream *s = &d->streams[n];
        if (s->freed.count) reclaim(d, &s->freed, device_stream_oldest(s));
    }
    if (d->freed.count) reclaim(d, &d->freed, device_oldest_sequence(d));
}

void memory_forget(device *d)
{
    for (uint32_t n = 0; n < DEVICE_STREAMS; n++) free(d->streams[n].freed.items);
    free(d->freed.items);
    free(d->composites);
}

static bool under_way(const device *d, const block_use *use)
{
    return use->sequence && device_stream_oldest(&d->streams[use->stream]) <= use->sequence;
}

void memory_give(device *d, uint64_t address)
{
    allocator_block *block = allocator_find(&d->memory, address);
    if (!block || block->address != address) return;
    bool several = block->use.several && device_oldest_sequence(d) <= d->sequence;
    if (!several && !under_way(d, &block->use)) {
        give_now(d, address);
        return;
    }
    block->use.freed = true;
    device_stream *s = &d->streams[block->use.stream];
    uint64_t sequence = several ? d->sequence : s->sequence;
    if (!add_waiting(several ? &d->freed : &s->freed,
                     (waiting_block){address, block->bytes, sequence}))
        log_warn("no host memory to free card address 0x%llx", (unsigned long long)address);
}

// The block of one chunk freed last of this very size that only tasks of `stream` touch: they end
// before the next one begins.
static bool take_over(device *d, uint32_t stream, uint64_t bytes, uint64_t *out_address)
{
    if (stream == MEMORY_NO_STREAM) return false;
    waiting_list *list = &d->streams[stream].freed;
    uint64_t rounded = allocator_round(bytes);
    for (uint32_t n = list->count; n-- > 0;) {
        if (list->items[n].bytes != rounded) continue;
        allocator_block *block = allocator_find(&d->memory, list->items[n].address);
        if (block->kind != ALLOCATOR_MEMORY) continue;
        *out_address = block->address;
        remove_waiting(list, n, 1);
        block_use *use = &block->use;
        use->inherited = true;
        use->freed = use->lost = false;
        return true;
    }
    return false;
}

static bool any_waits(const device *d)
{
    for (uint32_t n = 0; n < d->stream_count; n++)
        if (d->streams[n].freed.count) return true;
    return d->freed.count > 0;
}

spyre_status spyre_placement_check(const spyre_placement *p)
{
    uint32_t all = (1u << SPYRE_MEMORY_DOMAINS) - 1;
    bool one = p->domains && !(p->domains & (p->domains - 1));
    if (p->kind == SPYRE_PLACE_ANYWHERE || (!(p->domains & ~all) &&
                                            (p->kind == SPYRE_PLACE_INTERLEAVE || one)))
        return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "memory domains 0x%x: %s of domains 0 to %d", p->domains,
                      p->kind == SPYRE_PLACE_BIND ? "expected one" : "expected some",
                      SPYRE_MEMORY_DOMAINS - 1);
}

static spyre_status take_at(device *d, int64_t bytes, const spyre_placement *p,
                            uint64_t *out_address)
{
    uint32_t domains = p->domains ? p->domains : (1u << SPYRE_MEMORY_DOMAINS) - 1;
    bool pages = (uint64_t)bytes > card_page_bytes();
    if (p->kind == SPYRE_PLACE_ANYWHERE)
        return allocator_take(&d->memory, (uint64_t)bytes, out_address);
    if (p->kind == SPYRE_PLACE_INTERLEAVE && pages && (domains & (domains - 1)))
        return composite_take(d, bytes, domains, out_address);
    const allocator_request request = {.bytes = (uint64_t)bytes,
                                       .segment = (uint32_t)__builtin_ctz(domains),
                                       .align_bytes = ALLOCATOR_BLOCK_BYTES};
    return allocator_take_as(&d->memory, &request, out_address);
}

spyre_status memory_take(device *d, uint32_t stream, int64_t bytes,
                         const spyre_placement *placement, uint64_t *out_address)
{
    static const spyre_placement anywhere = {.kind = SPYRE_PLACE_ANYWHERE};
    if (!placement) placement = &anywhere;
    bool any = placement->kind == SPYRE_PLACE_ANYWHERE;
    TRY(spyre_placement_check(placement));
    if (any && take_over(d, stream, (uint64_t)bytes, out_address)) return NULL;
    reclaim_all(d);
    spyre_status status = take_at(d, bytes, placement, out_address);
    // Memory that waits for tasks to end may be what is missing.
    if (status && any_waits(d)) d->statistics.retries++;
    device_wait w = {0};
    while (status && any_waits(d)) {
        device_sleep_asking(d, &d->changed, &w);
        if (w.interrupted) {
            spyre_status_free(status);
            return device_interruption(&w);
        }
        reclaim_all(d);
        spyre_status_free(status);
        status = take_at(d, bytes, placement, out_address);
    }
    if (status) d->statistics.failures++;
    return status_at(status, "card %u", d->index);
}

spyre_status memory_await(device *d, uint32_t stream, uint64_t address)
{
    device_wait w = {0};
    for (;;) {
        const allocator_block *block = allocator_find(&d->memory, address);
        bool wait = block && block->use.inherited && block->use.stream != stream;
        if (!wait || !under_way(d, &block->use)) return NULL;
        device_sleep_asking(d, &d->changed, &w);
        if (w.interrupted) return device_interruption(&w);
    }
}

void memory_note_use(device *d, uint32_t stream, uint64_t address)
{
    allocator_block *block = allocator_find(&d->memory, address);
    if (!block) return;
    block_use *use = &block->use;
    bool shared = use->stream != stream && !use->inherited && under_way(d, use);
    *use = (block_use){.sequence = d->sequence + 1, .stream = stream,
                       .several = use->several || shared, .lost = use->lost};
}

spyre_status memory_claim(device *d, const task *t, uint64_t address, int64_t bytes, bool reads)
{
    uint64_t limit;
    TRY(memory_await(d, t->stream, address));
    TRY(memory_window(d, address, bytes, reads, &limit));
    memory_note_use(d, t->stream, address);
    return NULL;
}

void memory_lose(device *d, uint64_t address)
{
    allocator_block *block = allocator_find(&d->memory, address);
    if (block) block->use.lost = true;
}

void memory_restore(device *d, uint64_t address, int64_t bytes)
{
    if (d->cancelled == 0) return; // nothing was ever lost
    allocator_block *block = allocator_find(&d->memory, address);
    if (block && block->address == address && allocator_round((uint64_t)bytes) == block->bytes)
        block->use.lost = false;
}

spyre_status memory_window(const device *d, uint64_t address, int64_t bytes, bool reads,
                           uint64_t *out_limit)
{
    const allocator_block *block = allocator_find(&d->memory, address);
    if (!block || block->use.freed || block->kind == ALLOCATOR_CHUNK) {
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
    if (reads && block->use.lost) {
        return status_new(SPYRE_CANCELLED,
                          "address 0x%llx: the launch that would have written it was cancelled",
                          (unsigned long long)address);
    }
    return NULL;
}

// --- What users allocate

static void count_allocation(spyre_memory_statistics *s, uint64_t bytes)
{
    s->allocated_bytes += (int64_t)bytes;
    s->total_allocated_bytes += (int64_t)bytes;
    if (s->allocated_bytes > s->peak_bytes) s->peak_bytes = s->allocated_bytes;
    s->allocation_count++;
    s->total_allocations++;
    if (s->allocation_count > s->peak_allocation_count)
        s->peak_allocation_count = s->allocation_count;
}

static void count_free(spyre_memory_statistics *s, uint64_t bytes)
{
    s->allocated_bytes -= (int64_t)bytes;
    s->total_freed_bytes += (int64_t)bytes;
    s->allocation_count--;
    s->total_frees++;
}

spyre_status spyre_memory_place(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                                int64_t bytes, const spyre_placement *placement,
                                uint64_t *out_address)
{
    device *d;
    TRY(device_of(context, card_id, stream_id, &d));
    if (bytes < 0) {
        return status_new(SPYRE_INVALID_ARGUMENT, "allocation of %lld bytes", (long long)bytes);
    }
    pthread_mutex_lock(&d->lock);
    if (d->metrics) metrics_create(d->metrics);
    spyre_status status = memory_take(d, stream_id, bytes, placement, out_address);
    if (!status) {
        uint64_t rounded = allocator_find(&d->memory, *out_address)->bytes;
        count_allocation(&d->statistics, rounded);
        if (d->metrics) metrics_memory(d, *out_address, (int64_t)rounded);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

spyre_status spyre_memory_allocate(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                                   int64_t bytes, uint64_t *out_address)
{
    return spyre_memory_place(context, card_id, stream_id, bytes, NULL, out_address);
}

spyre_status spyre_memory_map(spyre_context *context, uint32_t card_id, uint32_t stream_id,
                              uint64_t address, int64_t bytes, bool writes, void **out_pointer)
{
    device *d;
    uint64_t limit;
    TRY(device_of(context, card_id, stream_id, &d));
    pthread_mutex_lock(&d->lock);
    spyre_status status = memory_await(d, stream_id, address);
    if (!status) status = memory_window(d, address, bytes, !writes, &limit);
    if (!status && writes) memory_restore(d, address, bytes);
    if (!status) *out_pointer = card_memory(d->machine, address, (uint64_t)bytes);
    pthread_mutex_unlock(&d->lock);
    return status;
}

void spyre_memory_free(spyre_context *context, uint32_t card_id, uint64_t address)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return;
    const allocator_block *block = allocator_find(&d->memory, address);
    bool known = block && block->address == address && !block->use.freed &&
                 block->kind != ALLOCATOR_CHUNK;
    if (known) {
        int64_t bytes = (int64_t)block->bytes;
        count_free(&d->statistics, block->bytes);
        memory_give(d, address);
        if (d->metrics) metrics_memory(d, address, -bytes);
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
    *out_statistics = (spyre_memory_statistics){0};
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return;
    reclaim_all(d);
    *out_statistics = d->statistics;
    out_statistics->reserved_bytes = (int64_t)d->memory.reserved_bytes;
    out_statistics->peak_reserved_bytes = (int64_t)d->memory.peak_reserved_bytes;
    out_statistics->total_reserved_bytes = (int64_t)d->memory.total_reserved_bytes;
    out_statistics->total_released_bytes = (int64_t)d->memory.total_released_bytes;
    out_statistics->limit_bytes = (int64_t)d->memory.limit_bytes;
    out_statistics->free_bytes = (int64_t)allocator_left_bytes(&d->memory);
    out_statistics->cache_limit_bytes = (int64_t)d->cache_limit_bytes;
    pthread_mutex_unlock(&d->lock);
}

spyre_status spyre_memory_set_limit(spyre_context *context, uint32_t card_id, int64_t bytes,
                                    const char *limited_by)
{
    if (bytes < 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "a limit of %lld bytes: expected 0 or more",
                          (long long)bytes);
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return status_new(SPYRE_INVALID_ARGUMENT, "card %u: there is no such card", card_id);
    allocator_limit(&d->memory, (uint64_t)bytes, limited_by);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void spyre_memory_reset_peak(spyre_context *context, uint32_t card_id)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return;
    d->statistics.peak_bytes = d->statistics.allocated_bytes;
    d->statistics.peak_allocation_count = d->statistics.allocation_count;
    d->memory.peak_reserved_bytes = d->memory.reserved_bytes;
    if (d->metrics) metrics_memory(d, 0, 0);
    pthread_mutex_unlock(&d->lock);
}

void spyre_memory_reset_totals(spyre_context *context, uint32_t card_id)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return;
    spyre_memory_statistics *s = &d->statistics;
    s->total_allocated_bytes = s->total_freed_bytes = 0;
    s->total_allocations = s->total_frees = 0;
    s->retries = s->failures = 0;
    d->memory.total_reserved_bytes = d->memory.total_released_bytes = 0;
    pthread_mutex_unlock(&d->lock);
}

void spyre_memory_empty_cache(spyre_context *context, uint32_t card_id)
{
    device *d = device_lock(context, card_id, SPYRE_DEFAULT_STREAM);
    if (!d) return;
    reclaim_all(d);
    allocator_trim(&d->memory, 0, discard, d->machine);
    if (d->metrics) metrics_memory(d, 0, 0);
    pthread_mutex_unlock(&d->lock);
}

// --- Where memory lies

spyre_status spyre_memory_chunks(spyre_context *context, uint32_t card_id, uint64_t address,
                                 spyre_chunk out_chunks[SPYRE_MEMORY_DOMAINS], uint32_t *out_count)
{
    device *d;
    uint64_t left;
    TRY(device_of(context, card_id, SPYRE_DEFAULT_STREAM, &d));
    pthread_mutex_lock(&d->lock);
    spyre_status status = memory_window(d, address, 0, false, &left);
    if (!status) *out_count = composite_chunks(d, allocator_find(&d->memory, address), out_chunks);
    pthread_mutex_unlock(&d->lock);
    return status;
}

spyre_status spyre_memory_domains(spyre_context *context, uint32_t card_id,
                                  int64_t out_free_bytes[SPYRE_MEMORY_DOMAINS])
{
    device *d;
    TRY(device_of(context, card_id, SPYRE_DEFAULT_STREAM, &d));
    pthread_mutex_lock(&d->lock);
    for (uint32_t k = 0; k < SPYRE_MEMORY_DOMAINS; k++)
        out_free_bytes[k] = (int64_t)allocator_free_bytes(&d->memory, k);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}
