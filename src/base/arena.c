// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// A block is a quarter of what is used: few blocks, and at most a fifth of an arena is idle.
enum { ALIGNMENT = 16, FIRST_BLOCK_BYTES = 4096, LARGEST_BLOCK_BYTES = 8 << 20, GROWTH = 4 };
enum { HUGE_PAGE_BYTES = 2 << 20 };

typedef struct block {
    struct block *previous;
    size_t capacity_bytes;
    size_t used_bytes;
    size_t padding;
    unsigned char bytes[];
} block;

struct arena {
    atomic_uint owners;
    block *current;
    size_t used_bytes;
    size_t first_bytes;         // of the first block, at least
};

arena *arena_create(void)
{
    arena *memory = calloc(1, sizeof *memory);
    if (memory) atomic_init(&memory->owners, 1);
    return memory;
}

void arena_keep(arena *memory)
{
    atomic_fetch_add(&memory->owners, 1);
}

static void free_blocks(arena *memory)
{
    for (block *b = memory->current; b;) {
        block *previous = b->previous;
        free(b);
        b = previous;
    }
    memory->current = NULL;
}

void arena_destroy(arena *memory)
{
    if (!memory || atomic_fetch_sub(&memory->owners, 1) != 1) return;
    free_blocks(memory);
    free(memory);
}

// Several blocks give way to one of them all.
void arena_clear(arena *memory)
{
    block *b = memory->current;
    if (b && b->previous) {
        memory->first_bytes = memory->used_bytes;
        free_blocks(memory);
    } else if (b) {
        memset(b->bytes, 0, b->used_bytes);
        b->used_bytes = 0;
    }
    memory->used_bytes = 0;
}

static size_t aligned(size_t size_bytes)
{
    size_t rounded = (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return rounded ? rounded : ALIGNMENT;
}

// Whole huge pages of a block are asked for as such: of graphs of thousands of ops the first touch
// of memory, and finding it, take a good part of compiling.
static void ask_for_huge_pages(block *b)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t mask = HUGE_PAGE_BYTES - 1, end = (uintptr_t)(b->bytes + b->capacity_bytes);
    const size_t before = (size_t)(-(uintptr_t)b & mask), behind = (size_t)(end & mask);
    const size_t all = (size_t)(end - (uintptr_t)b);
    if (all < before + behind + HUGE_PAGE_BYTES) return;
    (void)madvise((unsigned char *)b + before, all - before - behind, MADV_HUGEPAGE);
#else
    (void)b;
#endif
}

static block *add_block(arena *memory, size_t least_bytes)
{
    size_t capacity = memory->used_bytes / GROWTH;
    if (capacity < FIRST_BLOCK_BYTES) capacity = FIRST_BLOCK_BYTES;
    if (capacity > LARGEST_BLOCK_BYTES) capacity = LARGEST_BLOCK_BYTES;
    if (!memory->current && capacity < memory->first_bytes) capacity = memory->first_bytes;
    bool own = memory->current && least_bytes > capacity / 2;    // leaves the current one open
    if (own || capacity < least_bytes) capacity = least_bytes;
    if (capacity > SIZE_MAX - sizeof(block)) return NULL;
    block *b = calloc(1, sizeof *b + capacity);
    if (!b) return NULL;
    block **place = own ? &memory->current->previous : &memory->current;
    b->capacity_bytes = capacity;
    ask_for_huge_pages(b);
    b->previous = *place;
    *place = b;
    return b;
}

void *arena_alloc(arena *memory, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - ALIGNMENT) return NULL;
    size_t rounded = aligned(size_bytes);
    block *b = memory->current;
    if (!b || b->capacity_bytes - b->used_bytes < rounded) b = add_block(memory, rounded);
    if (!b) return NULL;
    void *result = b->bytes + b->used_bytes;
    b->used_bytes += rounded;
    memory->used_bytes += rounded;
    return result;
}

void *arena_alloc_array(arena *memory, size_t count, size_t element_bytes)
{
    if (element_bytes && count > SIZE_MAX / element_bytes) return NULL;
    return arena_alloc(memory, count * element_bytes);
}

static bool is_last(const block *b, const void *items, size_t rounded)
{
    return b && (const unsigned char *)items + rounded == b->bytes + b->used_bytes;
}

// Where the block hangs of which the array is all that was handed out; null: it shares one.
static block **own_block(arena *memory, const void *items, size_t rounded)
{
    block **place = &memory->current;
    while (*place && (*place)->bytes != items) place = &(*place)->previous;
    return *place && (*place)->used_bytes == rounded ? place : NULL;
}

static void *grow_block(block **place, size_t rounded)
{
    block *b = *place;
    if (rounded > SIZE_MAX - sizeof *b) return NULL;
    if (b->capacity_bytes < rounded) {
        b = realloc(b, sizeof *b + rounded);
        if (!b) return NULL;
        *place = b;
        const size_t before = b->capacity_bytes;
        b->capacity_bytes = rounded;
        ask_for_huge_pages(b);
        memset(b->bytes + before, 0, rounded - before);
    }
    b->used_bytes = rounded;
    return b->bytes;
}

void *arena_grow(arena *memory, void *items, size_t bytes, size_t larger_bytes)
{
    if (larger_bytes > SIZE_MAX - ALIGNMENT) return NULL;
    size_t before = aligned(bytes), after = aligned(larger_bytes);
    block *b = memory->current, **own = items ? own_block(memory, items, before) : NULL;
    bool last = items && is_last(b, items, before);
    void *grown = NULL;
    if (last && after - before <= b->capacity_bytes - b->used_bytes) {
        b->used_bytes += after - before;
        grown = items;
    } else if (own) {
        grown = grow_block(own, after);
    } else {
        grown = arena_alloc(memory, larger_bytes);
        if (grown && bytes) memcpy(grown, items, bytes);
        return grown;
    }
    if (grown) memory->used_bytes += after - before;
    return grown;
}

void arena_trim(arena *memory, void *items, size_t bytes, size_t smaller_bytes)
{
    size_t before = aligned(bytes), after = aligned(smaller_bytes);
    if (!is_last(memory->current, items, before)) return;
    memset((unsigned char *)items + after, 0, before - after);
    memory->current->used_bytes -= before - after;
    memory->used_bytes -= before - after;
}

char *arena_strndup(arena *memory, const char *text, size_t length)
{
    char *copy = arena_alloc(memory, length + 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

char *arena_strdup(arena *memory, const char *text)
{
    return arena_strndup(memory, text, strlen(text));
}

char *arena_printf(arena *memory, const char *format, ...)
{
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : arena_alloc(memory, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, values);
    va_end(values);
    return text;
}

size_t arena_used_bytes(const arena *memory)
{
    return memory->used_bytes;
}

size_t arena_host_bytes(const arena *memory)
{
    size_t bytes = sizeof *memory;
    for (const block *b = memory->current; b; b = b->previous)
        bytes += sizeof *b + b->capacity_bytes;
    return bytes;
}
