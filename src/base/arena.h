// SPDX-License-Identifier: Apache-2.0
//
// Memory that lives as long as one compilation (or one pass): allocate freely, free all at once.
// Not thread safe; one arena belongs to one thread at a time.
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct arena arena;

// A new empty arena, or null when memory is short.
arena *arena_create(void);

// Frees the arena and everything allocated from it; null is allowed. Each arena_keep(), of any
// thread, asks for one call more.
void arena_destroy(arena *memory);
void arena_keep(arena *memory);

// Takes everything back that was allocated, for allocations of about as many bytes again.
void arena_clear(arena *memory);

// Zeroed bytes aligned to 16, or null when memory is short. Size 0 gives a valid unique pointer.
void *arena_alloc(arena *memory, size_t size_bytes);

// `count` zeroed elements of type T, or null (also when the product overflows).
#define ARENA_NEW(memory, T, count) ((T *)arena_alloc_array((memory), (count), sizeof(T)))
void *arena_alloc_array(arena *memory, size_t count, size_t element_bytes);

// Sets `pointer` to `count` zeroed elements of what it points to; returns status_no_memory() from
// the calling function when there is no memory for them.
#define TRY_NEW(memory, pointer, count)                                        \
    do {                                                                       \
        (pointer) = arena_alloc_array((memory), (count), sizeof *(pointer));   \
        TRY_ALLOC(pointer);                                                    \
    } while (0)

// Makes an array longer: `items`, of `bytes` bytes, is the address of a whole earlier allocation,
// or null for none. It stays where it is if it is the last one and there is room, and leaves
// nothing behind if it has a block of its own; else what it had stays used until the arena goes.
// Null when memory is short; the array is then as it was.
void *arena_grow(arena *memory, void *items, size_t bytes, size_t larger_bytes);

// Gives back what an earlier allocation of `bytes` bytes has behind its first `smaller_bytes`, if
// it is the last one.
void arena_trim(arena *memory, void *items, size_t bytes, size_t smaller_bytes);

// Copies of a string, of its first `length` bytes, and of formatted text; null when memory is
// short.
char *arena_strdup(arena *memory, const char *text);
char *arena_strndup(arena *memory, const char *text, size_t length);
char *arena_printf(arena *memory, const char *format, ...) SPYRE_PRINTF(2, 3);

// Bytes handed out so far, for memory reports.
size_t arena_used_bytes(const arena *memory);

// Bytes of the host that the arena takes, what is not handed out yet included.
size_t arena_host_bytes(const arena *memory);

#endif
