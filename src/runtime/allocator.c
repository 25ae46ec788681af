// SPDX-License-Identifier: Apache-2.0
//
// Two arrays of blocks sorted by address. Few blocks are idle at a time because neighbours are
// joined, so the search for the best fit is a short scan.
#include "runtime/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "card/card.h"

// Index of the first block at or above `address`.
static uint32_t lower_bound(const allocator_list *list, uint64_t address)
{
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->items[middle].address < address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool make_room(allocator_list *list)
{
    if (list->count < list->capacity) return true;
    uint32_t capacity = list->capacity ? list->capacity * 2 : 64;
    allocator_block *items = realloc(list->items, capacity * sizeof *items);
    if (!items) return false;
    list->items = items;
    list->capacity = capacity;
    return true;
}

static void insert(allocator_list *list, uint32_t at, allocator_block block)
{
    memmove(&list->items[at + 1], &list->items[at], (list->count - at) * sizeof block);
    list->items[at] = block;
    list->count++;
}

static void remove_at(allocator_list *list, uint32_t at)
{
    list->count--;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof *list->items);
}

spyre_status allocator_create(uint64_t limit_bytes, allocator *out_allocator)
{
    allocator a = {.limit_bytes = ALLOCATOR_SEGMENTS * CARD_SEGMENT_BYTES - ALLOCATOR_BLOCK_BYTES};
    if (limit_bytes && limit_bytes < a.limit_bytes) a.limit_bytes = limit_bytes;
    for (uint32_t segment = 0; segment < ALLOCATOR_SEGMENTS; segment++) {
        uint64_t skip = segment == 0 ? ALLOCATOR_BLOCK_BYTES : 0;
        allocator_block all = {.address = segment * CARD_SEGMENT_BYTES + skip,
                               .bytes = CARD_SEGMENT_BYTES - skip};
        if (!make_room(&a.idle)) {
            allocator_destroy(&a);
            return status_no_memory();
        }
        insert(&a.idle, a.idle.count, all);
    }
    *out_allocator = a;
    return NULL;
}

void allocator_destroy(allocator *a)
{
    free(a->used.items);
    free(a->idle.items);
    memset(a, 0, sizeof *a);
}

static spyre_status too_large(const allocator *a, uint64_t bytes)
{
    uint64_t largest = 0;
    for (uint32_t n = 0; n < a->idle.count; n++)
        if (a->idle.items[n].bytes > largest) largest = a->idle.items[n].bytes;
    uint64_t left = a->limit_bytes - a->used_bytes;
    if (largest > left) largest = left;
    return status_new(SPYRE_OUT_OF_MEMORY,
                      "card out of memory: %llu bytes asked, %llu bytes free, largest block %llu "
                      "bytes, %llu bytes in use",
                      (unsigned long long)bytes, (unsigned long long)left,
                      (unsigned long long)largest, (unsigned long long)a->used_bytes);
}

// The smallest idle block that fits, the lowest of equals; `count` when there is none.
static uint32_t best_fit(const allocator_list *idle, uint64_t bytes)
{
    uint32_t best = idle->count;
    for (uint32_t n = 0; n < idle->count; n++) {
        if (idle->items[n].bytes < bytes) continue;
        if (best == idle->count || idle->items[n].bytes < idle->items[best].bytes) best = n;
    }
    return best;
}

uint64_t allocator_round(uint64_t bytes)
{
    uint64_t blocks = (bytes + ALLOCATOR_BLOCK_BYTES - 1) / ALLOCATOR_BLOCK_BYTES;
    return (blocks ? blocks : 1) * ALLOCATOR_BLOCK_BYTES;
}

spyre_status allocator_take(allocator *a, uint64_t bytes, uint64_t *out_address)
{
    if (bytes > CARD_SEGMENT_BYTES) return too_large(a, bytes);
    uint64_t rounded = allocator_round(bytes);
    uint32_t at = best_fit(&a->idle, rounded);
    if (at == a->idle.count || rounded > a->limit_bytes - a->used_bytes)
        return too_large(a, bytes);
    // Room for the split now, so that giving the block back cannot fail for want of host memory.
    if (!make_room(&a->used) || !make_room(&a->idle)) return status_no_memory();
    allocator_block *from = &a->idle.items[at];
    allocator_block taken = {.address = from->address, .bytes = rounded};
    from->address += rounded;
    from->bytes -= rounded;
    if (from->bytes == 0) remove_at(&a->idle, at);
    insert(&a->used, lower_bound(&a->used, taken.address), taken);
    a->used_bytes += rounded;
    uint64_t end = taken.address % CARD_SEGMENT_BYTES + rounded;
    uint64_t *highest = &a->highest[taken.address / CARD_SEGMENT_BYTES];
    if (end > *highest) *highest = end;
    *out_address = taken.address;
    return NULL;
}

static bool touches(allocator_block lower, allocator_block upper)
{
    bool same_segment = lower.address / CARD_SEGMENT_BYTES == upper.address / CARD_SEGMENT_BYTES;
    return same_segment && lower.address + lower.bytes == upper.address;
}

bool allocator_give(allocator *a, uint64_t address)
{
    uint32_t at = lower_bound(&a->used, address);
    if (at == a->used.count || a->used.items[at].address != address) return false;
    allocator_block block = a->used.items[at];
    uint32_t above = lower_bound(&a->idle, address);
    bool joins_above = above < a->idle.count && touches(block, a->idle.items[above]);
    bool joins_below = above > 0 && touches(a->idle.items[above - 1], block);
    // Without room the block stays in use: a leak is better than a lost address range.
    if (!joins_above && !joins_below && !make_room(&a->idle)) return true;
    remove_at(&a->used, at);
    a->used_bytes -= block.bytes;
    if (joins_below) {
        a->idle.items[above - 1].bytes += block.bytes;
        if (joins_above) {
            a->idle.items[above - 1].bytes += a->idle.items[above].bytes;
            remove_at(&a->idle, above);
        }
    } else if (joins_above) {
        a->idle.items[above].address = block.address;
        a->idle.items[above].bytes += block.bytes;
    } else {
        insert(&a->idle, above, block);
    }
    return true;
}

allocator_block *allocator_find(const allocator *a, uint64_t address)
{
    uint32_t at = lower_bound(&a->used, address);
    if (at < a->used.count && a->used.items[at].address == address) return &a->used.items[at];
    if (at == 0) return NULL;
    allocator_block *below = &a->used.items[at - 1];
    return address - below->address < below->bytes ? below : NULL;
}

uint64_t allocator_reserved_bytes(const allocator *a)
{
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < ALLOCATOR_SEGMENTS; s++) bytes += a->highest[s];
    if (a->highest[0]) bytes -= ALLOCATOR_BLOCK_BYTES;
    return bytes;
}
