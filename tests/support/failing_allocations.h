// SPDX-License-Identifier: Apache-2.0
//
// Makes the n-th request for memory fail, once: of the host or of an arena, because an arena's
// blocks would hide most places that can fail. The test is linked with -Wl,--wrap=malloc,.. (tests/
// CMakeLists.txt), so that every call in the library goes through here and it has no hook itself.
// Requests that libc makes for itself are not seen, nor are jansson's, which frees what it does not
// own when one of its requests fails (2.14). Included by one file of an executable.
#ifndef TESTS_FAILING_ALLOCATIONS_H
#define TESTS_FAILING_ALLOCATIONS_H

#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xxhash.h>

#include "base/arena.h"

// Requests until one fails: 1 is the next. 0 or below: none does.
static atomic_long failing_left;
static atomic_long failing_seen;

// Ways to a request are told apart by the calls that led there, as far up as this.
enum { MOST_FRAMES = 48, MOST_WAYS = 1 << 14, MOST_REQUESTS = 1 << 20 };

typedef struct {
    uint64_t hash;                              // 0: a free place
    uint32_t requests;
} failing_way;

static bool failing_records;
static failing_way failing_ways[MOST_WAYS];
static bool failing_chosen[MOST_REQUESTS];

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);

void *__real_arena_alloc(arena *memory, size_t bytes);
void *__real_arena_alloc_array(arena *memory, size_t count, size_t bytes);
char *__real_arena_strdup(arena *memory, const char *from);
char *__real_arena_strndup(arena *memory, const char *from, size_t length);
void *__wrap_arena_alloc(arena *memory, size_t bytes);
void *__wrap_arena_alloc_array(arena *memory, size_t count, size_t bytes);
char *__wrap_arena_strdup(arena *memory, const char *from);
char *__wrap_arena_strndup(arena *memory, const char *from, size_t length);
char *__wrap_arena_printf(arena *memory, const char *format, ...) SPYRE_PRINTF(2, 3);

static failing_way *failing_find_way(void)
{
    void *frames[MOST_FRAMES];
    int count = backtrace(frames, MOST_FRAMES);
    uint64_t hash = XXH3_64bits(frames, (size_t)count * sizeof *frames) | 1;
    uint32_t at = (uint32_t)(hash >> 32) % MOST_WAYS;
    for (uint32_t tried = 0; tried < MOST_WAYS; tried++, at = (at + 1) % MOST_WAYS) {
        if (failing_ways[at].hash == hash) return &failing_ways[at];
        if (failing_ways[at].hash) continue;
        failing_ways[at].hash = hash;
        return &failing_ways[at];
    }
    abort();
}

// Of the requests of the process that one way leads to, the first, second, fourth .. are chosen.
static void failing_record(long request)
{
    if (request >= MOST_REQUESTS) abort();
    failing_way *way = failing_find_way();
    way->requests++;
    failing_chosen[request] = (way->requests & (way->requests - 1)) == 0;
}

static bool failing_now(void)
{
    long request = atomic_fetch_add(&failing_seen, 1) + 1;
    if (failing_records) failing_record(request);
    return atomic_fetch_sub(&failing_left, 1) == 1;
}

void *__wrap_malloc(size_t bytes)
{
    return failing_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return failing_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return failing_now() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return failing_now() ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (!failing_now()) return __real_mmap(at, bytes, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

void *__wrap_arena_alloc(arena *memory, size_t bytes)
{
    return failing_now() ? NULL : __real_arena_alloc(memory, bytes);
}

void *__wrap_arena_alloc_array(arena *memory, size_t count, size_t bytes)
{
    return failing_now() ? NULL : __real_arena_alloc_array(memory, count, bytes);
}

char *__wrap_arena_strdup(arena *memory, const char *from)
{
    return failing_now() ? NULL : __real_arena_strdup(memory, from);
}

char *__wrap_arena_strndup(arena *memory, const char *from, size_t length)
{
    return failing_now() ? NULL : __real_arena_strndup(memory, from, length);
}

char *__wrap_arena_printf(arena *memory, const char *format, ...)
{
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *content = failing_now() ? NULL : __real_arena_alloc(memory, (size_t)length + 1);
    if (content) vsnprintf(content, (size_t)length + 1, format, values);
    va_end(values);
    return content;
}

// The n-th request from now on fails; 0: none.
static void failing_set(long n)
{
    atomic_store(&failing_seen, 0);
    atomic_store(&failing_left, n);
}

// No request fails; failing_chosen[n] tells afterwards whether the n-th is worth a failure.
static void failing_choose(void)
{
    memset(failing_chosen, 0, sizeof failing_chosen);
    failing_set(0);
    failing_records = true;
}

// Switches failing and choosing off; requests since failing_set or failing_choose.
static long failing_stop(void)
{
    failing_records = false;
    atomic_store(&failing_left, 0);
    return atomic_load(&failing_seen);
}

#endif
