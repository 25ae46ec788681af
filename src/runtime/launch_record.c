// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch_record.h"

#include <string.h>

enum { CHUNK = LAUNCH_RECORD_CHUNK_BYTES };

uint64_t launch_chunk_count(uint64_t bytes)
{
    return (bytes + CHUNK - 1) / CHUNK;
}

size_t launch_chunk_bytes(uint64_t bytes, uint64_t number)
{
    uint64_t left = bytes - number * CHUNK;
    return (size_t)(left < CHUNK ? left : CHUNK);
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

static spyre_status add_chunk(arena *memory, launch_chunks *to, uint64_t number,
                              const uint8_t *bytes, size_t count)
{
    uint8_t *copy = ARENA_NEW(memory, uint8_t, count);
    TRY_ALLOC(copy);
    memcpy(copy, bytes, count);
    return VEC_PUSH(memory, to, ((launch_chunk){number, copy}));
}

static spyre_status take_chunks(arena *memory, const uint8_t *bytes, uint64_t count,
                                launch_chunks *out)
{
    for (uint64_t n = 0; n < launch_chunk_count(count); n++) {
        size_t length = launch_chunk_bytes(count, n);
        if (!is_zero(bytes + n * CHUNK, length))
            TRY(add_chunk(memory, out, n, bytes + n * CHUNK, length));
    }
    return NULL;
}

static spyre_status window_memory(const launch_window *window, card *c, uint8_t **out)
{
    *out = card_memory(c, window->base, window->bytes);
    if (*out) return NULL;
    return status_new(SPYRE_INVALID_FORMAT, "%llu bytes at 0x%llx are not inside a segment",
                      (unsigned long long)window->bytes, (unsigned long long)window->base);
}

spyre_status launch_record_take(launch_record *record, card *c)
{
    for (uint32_t w = 0; w < record->windows.count; w++) {
        uint8_t *bytes;
        TRY(window_memory(&record->windows.items[w], c, &bytes));
        TRY(take_chunks(record->memory, bytes, record->windows.items[w].bytes,
                        &record->windows.items[w].before));
    }
    for (uint32_t core = 0; core < ISA_CORES; core++)
        TRY(take_chunks(record->memory, card_lx(c, core), ISA_LX_BYTES, &record->lx[core]));
    return NULL;
}

// The chunk `number` of ascending ones, or null; *at is where to go on looking.
static const launch_chunk *chunk_at(const launch_chunks *of, uint64_t number, uint32_t *at)
{
    while (*at < of->count && of->items[*at].number < number) (*at)++;
    return *at < of->count && of->items[*at].number == number ? &of->items[*at] : NULL;
}

static bool is_as(const launch_chunk *chunk, const uint8_t *bytes, size_t count)
{
    return chunk ? memcmp(chunk->bytes, bytes, count) == 0 : is_zero(bytes, count);
}

spyre_status launch_record_finish(launch_record *record, card *c, bool faulted)
{
    record->faulted = faulted;
    for (uint32_t w = 0; w < record->windows.count; w++) {
        launch_window *window = &record->windows.items[w];
        uint8_t *bytes;
        uint32_t at = 0;
        TRY(window_memory(window, c, &bytes));
        for (uint64_t n = 0; n < launch_chunk_count(window->bytes); n++) {
            size_t length = launch_chunk_bytes(window->bytes, n);
            if (!is_as(chunk_at(&window->before, n, &at), bytes + n * CHUNK, length))
                TRY(add_chunk(record->memory, &window->changed, n, bytes + n * CHUNK, length));
        }
    }
    return NULL;
}

spyre_status launch_record_restore(const launch_record *record, card *c)
{
    for (uint32_t w = 0; w < record->windows.count; w++) {
        const launch_window *window = &record->windows.items[w];
        uint8_t *bytes;
        TRY(status_at(window_memory(window, c, &bytes), "window %u", w));
        for (uint32_t i = 0; i < window->before.count; i++) {
            const launch_chunk *chunk = &window->before.items[i];
            memcpy(bytes + chunk->number * CHUNK, chunk->bytes,
                   launch_chunk_bytes(window->bytes, chunk->number));
        }
    }
    for (uint32_t core = 0; core < ISA_CORES; core++)
        for (uint32_t i = 0; i < record->lx[core].count; i++) {
            const launch_chunk *chunk = &record->lx[core].items[i];
            memcpy(card_lx(c, core) + chunk->number * CHUNK, chunk->bytes, CHUNK);
        }
    return NULL;
}

static int64_t first_difference(const launch_chunk *chunk, const uint8_t *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && bytes[i] == (chunk ? chunk->bytes[i] : 0)) i++;
    return i < count ? (int64_t)i : -1;
}

spyre_status launch_record_compare(const launch_record *record, uint32_t w, card *c,
                                   int64_t *out_first)
{
    const launch_window *window = &record->windows.items[w];
    uint8_t *bytes;
    uint32_t before_at = 0, changed_at = 0;
    *out_first = -1;
    TRY(window_memory(window, c, &bytes));
    for (uint64_t n = 0; n < launch_chunk_count(window->bytes) && *out_first < 0; n++) {
        const launch_chunk *before = chunk_at(&window->before, n, &before_at);
        const launch_chunk *changed = chunk_at(&window->changed, n, &changed_at);
        int64_t at = first_difference(changed ? changed : before, bytes + n * CHUNK,
                                      launch_chunk_bytes(window->bytes, n));
        if (at >= 0) *out_first = (int64_t)(n * CHUNK) + at;
    }
    return NULL;
}
