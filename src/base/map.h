// SPDX-License-Identifier: Apache-2.0
//
// Hash maps from byte strings (map_bytes) and from 64-bit numbers (map_u64) to 32-bit ids. Start
// from `map_bytes m = {0};`; memory comes from the arena given to each put and always the same one.
// Neither map forgets an entry. Order of insertion never shows: there is no iteration, so that
// nothing can depend on hash values; keep a VEC beside the map to walk its entries.
//
// Thread rule: many readers, or one writer.
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct map_bytes_slot map_bytes_slot;
typedef struct map_u64_slot map_u64_slot;

typedef struct {
    map_bytes_slot *slots;
    uint32_t count;         // entries
    uint32_t capacity;      // slots, a power of two or 0
} map_bytes;

typedef struct {
    map_u64_slot *slots;
    uint32_t count;
    uint32_t capacity;
} map_u64;

// True and *out_value when the key is there; *out_value stays untouched otherwise.
bool map_bytes_get(const map_bytes *map, const void *key, size_t length, uint32_t *out_value);
bool map_u64_get(const map_u64 *map, uint64_t key, uint32_t *out_value);

// Sets the value of a key, new or not. A new byte string is copied into the arena.
SPYRE_MUST_CHECK spyre_status map_bytes_put(arena *memory, map_bytes *map, const void *key,
                                            size_t length, uint32_t value);
SPYRE_MUST_CHECK spyre_status map_u64_put(arena *memory, map_u64 *map, uint64_t key,
                                          uint32_t value);

// For interning: the value that the key has; a key that was not there gets `fresh`. The caller sees
// that an entry is new by *out_value == fresh.
SPYRE_MUST_CHECK spyre_status map_bytes_intern(arena *memory, map_bytes *map, const void *key,
                                               size_t length, uint32_t fresh,
                                               uint32_t *out_value);

// The byte-string map with null-terminated keys; the terminator is not part of the key.
bool map_string_get(const map_bytes *map, const char *key, uint32_t *out_value);
SPYRE_MUST_CHECK spyre_status map_string_put(arena *memory, map_bytes *map, const char *key,
                                             uint32_t value);
SPYRE_MUST_CHECK spyre_status map_string_intern(arena *memory, map_bytes *map, const char *key,
                                                uint32_t fresh, uint32_t *out_value);

#endif
