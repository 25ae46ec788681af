// SPDX-License-Identifier: Apache-2.0
//
// Two arrays sorted by address: blocks in use and gaps. Gaps are few because neighbours are joined,
// so the search for the best fit is a short scan.
#include "runtime/allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card/card.h"

#define PAGES (ALLOCATOR_SEGMENTS * CARD_SEGMENT_BYTES / ALLOCATOR_PAGE_BYTES)
#define NO_BLOCK UINT32_MAX
enum { WORD_BITS = 64 };

// --- Arrays

static bool make_room(void **items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) return true;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*items, wanted * item_bytes);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

// Blocks in use and ends of segments part the gaps: with room for one more block, giving any back
// needs no memory.
static bool room_for_gaps(allocator *a)
{
    void *items = a->gaps;
    bool ok = make_room(&items, a->used_count + ALLOCATOR_SEGMENTS, &a->gap_capacity,
                        sizeof *a->gaps);
    a->gaps = items;
    return ok;
}

static bool room_for_block(allocator *a)
{
    void *entries = a->used, *blocks = a->blocks;
    bool ok = make_room(&entries, a->used_count, &a->used_capacity, sizeof *a->used);
    a->used = entries;
    if (a->unused_block != NO_BLOCK) return ok;
    ok = ok && make_room(&blocks, a->block_count, &a->block_capacity, sizeof *a->blocks);
    a->blocks = blocks;
    return ok;
}

// Index of the first entry at or above `place`.
static uint32_t entry_at(const allocator *a, uint64_t place)
{
    uint32_t low = 0, high = a->used_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (a->used[middle].place < place) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Index of the first gap above `address`.
static uint32_t gap_above(const allocator *a, uint64_t address)
{
    uint32_t low = 0, high = a->gap_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (a->gaps[middle].address < address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void insert_block(allocator *a, uint64_t address, uint64_t bytes, allocator_kind kind)
{
    uint32_t index = a->unused_block;
    if (index == NO_BLOCK) index = a->block_count++;
    else a->unused_block = (uint32_t)a->blocks[index].address;
    a->blocks[index] = (allocator_block){.address = address, .bytes = bytes, .kind = kind};
    uint64_t place = address / ALLOCATOR_BLOCK_BYTES;
    uint32_t at = entry_at(a, place);
    memmove(&a->used[at + 1], &a->used[at], (a->used_count - at) * sizeof *a->used);
    a->used[at] = (allocator_entry){(uint32_t)place, index};
    a->starts[place % ALLOCATOR_STARTS] = a->used[at];
    a->used_count++;
    if (kind != ALLOCATOR_RANGE) a->used_bytes += bytes;
}

static void remove_block(allocator *a, uint32_t at)
{
    uint32_t index = a->used[at].block;
    allocator_entry *start = &a->starts[a->used[at].place % ALLOCATOR_STARTS];
    if (start->place == a->used[at].place) start->place = 0;
    if (a->blocks[index].kind != ALLOCATOR_RANGE) a->used_bytes -= a->blocks[index].bytes;
    a->blocks[index].address = a->unused_block;
    a->unused_block = index;
    a->used_count--;
    memmove(&a->used[at], &a->used[at + 1], (a->used_count - at) * sizeof *a->used);
}

static void insert_gap(allocator *a, uint32_t at, allocator_gap gap)
{
    memmove(&a->gaps[at + 1], &a->gaps[at], (a->gap_count - at) * sizeof gap);
    a->gaps[at] = gap;
    a->gap_count++;
}

static void remove_gap(allocator *a, uint32_t at)
{
    a->gap_count--;
    memmove(&a->gaps[at], &a->gaps[at + 1], (a->gap_count - at) * sizeof *a->gaps);
}

// --- Life

spyre_status allocator_create(allocator *out_allocator)
{
    allocator a = {.limit_bytes = ALLOCATOR_MOST_BYTES, .unused_block = NO_BLOCK};
    a.backed = calloc(PAGES / WORD_BITS, sizeof *a.backed);
    if (!a.backed || !room_for_gaps(&a)) {
        allocator_destroy(&a);
        return status_no_memory();
    }
    for (uint32_t segment = 0; segment < ALLOCATOR_SEGMENTS; segment++) {
        uint64_t skip = segment == 0 ? ALLOCATOR_BLOCK_BYTES : 0;
        insert_gap(&a, a.gap_count, (allocator_gap){.address = segment * CARD_SEGMENT_BYTES + skip,
                                                    .bytes = CARD_SEGMENT_BYTES - skip});
    }
    *out_allocator = a;
    return NULL;
}

void allocator_destroy(allocator *a)
{
    free(a->blocks);
    free(a->used);
    free(a->gaps);
    free(a->backed);
    memset(a, 0, sizeof *a);
}

// --- Pages

static bool is_backed(const allocator *a, uint64_t page)
{
    return a->backed[page / WORD_BITS] >> page % WORD_BITS & 1u;
}

static void back(allocator *a, uint64_t address, uint64_t bytes)
{
    uint64_t last = (address + bytes - 1) / ALLOCATOR_PAGE_BYTES;
    for (uint64_t page = address / ALLOCATOR_PAGE_BYTES; page <= last; page++) {
        if (is_backed(a, page)) continue;
        a->backed[page / WORD_BITS] |= UINT64_C(1) << page % WORD_BITS;
        a->reserved_bytes += ALLOCATOR_PAGE_BYTES;
        a->total_reserved_bytes += ALLOCATOR_PAGE_BYTES;
    }
    if (a->reserved_bytes > a->peak_reserved_bytes) a->peak_reserved_bytes = a->reserved_bytes;
}

// The backed pages from *page to before `end` that follow one another: how many, from *page on.
static uint64_t next_run(const allocator *a, uint64_t *page, uint64_t end)
{
    while (*page < end && !is_backed(a, *page)) {
        bool whole_word = *page % WORD_BITS == 0 && a->backed[*page / WORD_BITS] == 0;
        *page += whole_word ? WORD_BITS : 1;
    }
    uint64_t count = 0;
    while (*page + count < end && is_backed(a, *page + count)) count++;
    return count;
}

static void whole_pages(const allocator_gap *gap, uint64_t *first, uint64_t *end)
{
    *first = (gap->address + ALLOCATOR_PAGE_BYTES - 1) / ALLOCATOR_PAGE_BYTES;
    *end = (gap->address + gap->bytes) / ALLOCATOR_PAGE_BYTES;
}

// The gap with pages to release that was freed longest ago, or null.
static const allocator_gap *oldest_gap(const allocator *a)
{
    const allocator_gap *oldest = NULL;
    for (uint32_t n = 0; n < a->gap_count; n++) {
        const allocator_gap *gap = &a->gaps[n];
        if (oldest && gap->age >= oldest->age) continue;
        uint64_t page, end;
        whole_pages(gap, &page, &end);
        if (page < end && next_run(a, &page, end)) oldest = gap;
    }
    return oldest;
}

static void release_gap(allocator *a, const allocator_gap *gap, allocator_release *release,
                        void *context)
{
    uint64_t page, end, count;
    whole_pages(gap, &page, &end);
    for (; page < end && (count = next_run(a, &page, end)) > 0; page += count) {
        for (uint64_t n = page; n < page + count; n++)
            a->backed[n / WORD_BITS] &= ~(UINT64_C(1) << n % WORD_BITS);
        a->reserved_bytes -= count * ALLOCATOR_PAGE_BYTES;
        a->total_released_bytes += count * ALLOCATOR_PAGE_BYTES;
        release(context, page * ALLOCATOR_PAGE_BYTES, count * ALLOCATOR_PAGE_BYTES);
    }
}

void allocator_trim(allocator *a, uint64_t idle_bytes, allocator_release *release, void *context)
{
    while (a->reserved_bytes > a->used_bytes && a->reserved_bytes - a->used_bytes > idle_bytes) {
        const allocator_gap *gap = oldest_gap(a);
        if (!gap) return;
        release_gap(a, gap, release, context);
    }
}

void allocator_release_range(allocator *a, uint64_t address, uint64_t bytes,
                             allocator_release *release, void *context)
{
    release_gap(a, &(allocator_gap){.address = address, .bytes = bytes}, release, context);
}

void allocator_limit(allocator *a, uint64_t limit_bytes, const char *limited_by)
{
    bool lower = limit_bytes < ALLOCATOR_MOST_BYTES;
    a->limit_bytes = lower ? limit_bytes : ALLOCATOR_MOST_BYTES;
    a->limited_by = lower ? limited_by : NULL;
}

// --- Taking

uint64_t allocator_left_bytes(const allocator *a)
{
    return a->limit_bytes > a->used_bytes ? a->limit_bytes - a->used_bytes : 0;
}

static bool in_segment(const allocator_gap *gap, uint32_t segment)
{
    return segment == ALLOCATOR_ANY_SEGMENT || gap->address / CARD_SEGMENT_BYTES == segment;
}

static spyre_status too_large(const allocator *a, const allocator_request *request)
{
    uint64_t largest = 0;
    for (uint32_t n = 0; n < a->gap_count; n++)
        if (in_segment(&a->gaps[n], request->segment) && a->gaps[n].bytes > largest)
            largest = a->gaps[n].bytes;
    uint64_t left = allocator_left_bytes(a);
    char limit[128] = "";
    if (a->limited_by && largest >= allocator_round(request->bytes))
        snprintf(limit, sizeof limit, "; the limit of %llu bytes is that of %s",
                 (unsigned long long)a->limit_bytes, a->limited_by);
    if (largest > left) largest = left;
    char where[32] = "";
    if (request->segment != ALLOCATOR_ANY_SEGMENT)
        snprintf(where, sizeof where, " in domain %u", request->segment);
    return status_new(SPYRE_OUT_OF_MEMORY,
                      "card out of memory%s: %llu bytes asked, %llu bytes free, largest block %llu "
                      "bytes, %llu bytes in use in %u blocks, %llu bytes reserved%s",
                      where, (unsigned long long)request->bytes, (unsigned long long)left,
                      (unsigned long long)largest, (unsigned long long)a->used_bytes,
                      a->used_count, (unsigned long long)a->reserved_bytes, limit);
}

uint64_t allocator_free_bytes(const allocator *a, uint32_t segment)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < a->gap_count; n++)
        if (in_segment(&a->gaps[n], segment)) bytes += a->gaps[n].bytes;
    return bytes;
}

// Bytes in front of the first aligned address of a gap.
static uint64_t skipped(const allocator_gap *gap, uint64_t align_bytes)
{
    return (align_bytes - gap->address % align_bytes) % align_bytes;
}

// The smallest gap that fits, of equals the one freed last; gap_count when there is none.
static uint32_t best_fit(const allocator *a, const allocator_request *request, uint64_t bytes)
{
    uint32_t best = a->gap_count;
    for (uint32_t n = 0; n < a->gap_count; n++) {
        const allocator_gap *gap = &a->gaps[n], *other = &a->gaps[best];
        if (gap->bytes < bytes || !in_segment(gap, request->segment) ||
            gap->bytes - bytes < skipped(gap, request->align_bytes))
            continue;
        bool better = best == a->gap_count || gap->bytes < other->bytes ||
                      (gap->bytes == other->bytes && gap->age > other->age);
        if (better) best = n;
    }
    return best;
}

uint64_t allocator_round(uint64_t bytes)
{
    uint64_t blocks = (bytes + ALLOCATOR_BLOCK_BYTES - 1) / ALLOCATOR_BLOCK_BYTES;
    return (blocks ? blocks : 1) * ALLOCATOR_BLOCK_BYTES;
}

// Cuts a block out of a gap; what is left in front of and behind it stays.
static uint64_t cut(allocator *a, uint32_t at, uint64_t bytes, uint64_t align_bytes)
{
    allocator_gap *from = &a->gaps[at], behind = *from;
    uint64_t skip = skipped(from, align_bytes), address = from->address + skip;
    behind.address = address + bytes;
    behind.bytes -= skip + bytes;
    from->bytes = skip;
    if (skip && behind.bytes) insert_gap(a, at + 1, behind);
    else if (behind.bytes) *from = behind;
    else if (!skip) remove_gap(a, at);
    return address;
}

spyre_status allocator_take_as(allocator *a, const allocator_request *request,
                               uint64_t *out_address)
{
    if (request->bytes > CARD_SEGMENT_BYTES) return too_large(a, request);
    uint64_t rounded = allocator_round(request->bytes);
    bool counts = request->kind != ALLOCATOR_RANGE;
    uint32_t at = best_fit(a, request, rounded);
    if (at == a->gap_count || (counts && rounded > allocator_left_bytes(a)))
        return too_large(a, request);
    if (!room_for_block(a) || !room_for_gaps(a)) return status_no_memory();
    *out_address = cut(a, at, rounded, request->align_bytes);
    insert_block(a, *out_address, rounded, request->kind);
    if (counts) back(a, *out_address, rounded);
    return NULL;
}

spyre_status allocator_take(allocator *a, uint64_t bytes, uint64_t *out_address)
{
    allocator_request request = {.bytes = bytes, .segment = ALLOCATOR_ANY_SEGMENT,
                                 .align_bytes = ALLOCATOR_ALIGN_BYTES};
    const uint64_t rounded = allocator_round(bytes);
    if (bytes < ALLOCATOR_LARGE_BYTES || best_fit(a, &request, rounded) == a->gap_count)
        request.align_bytes = ALLOCATOR_BLOCK_BYTES;
    return allocator_take_as(a, &request, out_address);
}

// --- Giving back

static bool touches(const allocator_gap *lower, const allocator_gap *upper)
{
    bool same_segment = lower->address / CARD_SEGMENT_BYTES == upper->address / CARD_SEGMENT_BYTES;
    return same_segment && lower->address + lower->bytes == upper->address;
}

bool allocator_give(allocator *a, uint64_t address)
{
    uint32_t at = entry_at(a, address / ALLOCATOR_BLOCK_BYTES);
    if (at == a->used_count || a->blocks[a->used[at].block].address != address) return false;
    allocator_gap freed = {address, a->blocks[a->used[at].block].bytes, ++a->age};
    uint32_t above = gap_above(a, address);
    bool joins_above = above < a->gap_count && touches(&freed, &a->gaps[above]);
    bool joins_below = above > 0 && touches(&a->gaps[above - 1], &freed);
    remove_block(a, at);
    if (joins_above) freed.bytes += a->gaps[above].bytes;
    if (joins_below) {
        freed.address = a->gaps[above - 1].address;
        freed.bytes += a->gaps[above - 1].bytes;
        a->gaps[above - 1] = freed;
        if (joins_above) remove_gap(a, above);
    } else if (joins_above) {
        a->gaps[above] = freed;
    } else {
        insert_gap(a, above, freed);
    }
    return true;
}

allocator_block *allocator_find(const allocator *a, uint64_t address)
{
    uint64_t place = address / ALLOCATOR_BLOCK_BYTES;
    const allocator_entry *entry = &a->starts[place % ALLOCATOR_STARTS];
    if (!place || entry->place != place) {
        uint32_t at = entry_at(a, place);
        bool starts = at < a->used_count && a->used[at].place == place;
        if (!starts && at == 0) return NULL;
        entry = &a->used[starts ? at : at - 1];
    }
    allocator_block *block = &a->blocks[entry->block];
    return address - block->address < block->bytes ? block : NULL;
}
