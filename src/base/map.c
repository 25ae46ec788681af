// SPDX-License-Identifier: Apache-2.0
//
// Open addressing with linear probing, at most three quarters full. The value is stored with an
// "occupied" flag instead of a reserved key, so that every key is legal.
#include "base/map.h"

#include <string.h>

#include <xxhash.h>

enum { FIRST_CAPACITY = 16, LARGEST_CAPACITY = 1u << 30 };

struct map_bytes_slot {
    uint64_t hash;
    const char *key;        // null: the slot is free
    size_t length;
    uint32_t value;
};

struct map_u64_slot {
    uint64_t key;
    uint32_t value;
    uint32_t occupied;
};

static uint32_t larger_capacity(uint32_t capacity)
{
    if (capacity >= LARGEST_CAPACITY) return 0;
    return capacity ? capacity * 2 : FIRST_CAPACITY;
}

static bool is_full(uint32_t count, uint32_t capacity)
{
    return count >= capacity - capacity / 4;
}

// The slot of the key, or the free slot where it belongs; the map has capacity.
static map_bytes_slot *bytes_slot(const map_bytes *map, uint64_t hash, const void *key,
                                  size_t length)
{
    uint32_t mask = map->capacity - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        map_bytes_slot *slot = &map->slots[at];
        if (!slot->key) return slot;
        if (slot->hash != hash || slot->length != length) continue;
        if (length == 0 || memcmp(slot->key, key, length) == 0) return slot;
    }
}

static spyre_status bytes_grow(arena *memory, map_bytes *map)
{
    map_bytes larger = {.count = map->count, .capacity = larger_capacity(map->capacity)};
    if (!larger.capacity) return status_no_memory();
    larger.slots = ARENA_NEW(memory, map_bytes_slot, larger.capacity);
    TRY_ALLOC(larger.slots);
    for (uint32_t i = 0; i < map->capacity; i++) {
        const map_bytes_slot *old = &map->slots[i];
        if (old->key) *bytes_slot(&larger, old->hash, old->key, old->length) = *old;
    }
    *map = larger;
    return NULL;
}

// The slot of the key, made with `fresh` as its value when it was not there.
static spyre_status bytes_entry(arena *memory, map_bytes *map, const void *key, size_t length,
                                uint32_t fresh, map_bytes_slot **out_slot)
{
    if (is_full(map->count, map->capacity)) TRY(bytes_grow(memory, map));
    uint64_t hash = XXH3_64bits(key, length);
    map_bytes_slot *slot = bytes_slot(map, hash, key, length);
    if (!slot->key) {
        char *copy = arena_alloc(memory, length + 1);
        TRY_ALLOC(copy);
        if (length) memcpy(copy, key, length);
        *slot = (map_bytes_slot){.hash = hash, .key = copy, .length = length, .value = fresh};
        map->count++;
    }
    *out_slot = slot;
    return NULL;
}

bool map_bytes_get(const map_bytes *map, const void *key, size_t length, uint32_t *out_value)
{
    if (map->count == 0) return false;
    const map_bytes_slot *slot = bytes_slot(map, XXH3_64bits(key, length), key, length);
    if (!slot->key) return false;
    *out_value = slot->value;
    return true;
}

spyre_status map_bytes_put(arena *memory, map_bytes *map, const void *key, size_t length,
                           uint32_t value)
{
    map_bytes_slot *slot;
    TRY(bytes_entry(memory, map, key, length, value, &slot));
    slot->value = value;
    return NULL;
}

spyre_status map_bytes_intern(arena *memory, map_bytes *map, const void *key, size_t length,
                              uint32_t fresh, uint32_t *out_value)
{
    map_bytes_slot *slot;
    TRY(bytes_entry(memory, map, key, length, fresh, &slot));
    *out_value = slot->value;
    return NULL;
}

bool map_string_get(const map_bytes *map, const char *key, uint32_t *out_value)
{
    return map_bytes_get(map, key, strlen(key), out_value);
}

spyre_status map_string_put(arena *memory, map_bytes *map, const char *key, uint32_t value)
{
    return map_bytes_put(memory, map, key, strlen(key), value);
}

spyre_status map_string_intern(arena *memory, map_bytes *map, const char *key, uint32_t fresh,
                               uint32_t *out_value)
{
    return map_bytes_intern(memory, map, key, strlen(key), fresh, out_value);
}

static map_u64_slot *u64_slot(const map_u64 *map, uint64_t key)
{
    uint32_t mask = map->capacity - 1;
    for (uint32_t at = (uint32_t)XXH3_64bits(&key, sizeof key) & mask;; at = (at + 1) & mask) {
        map_u64_slot *slot = &map->slots[at];
        if (!slot->occupied || slot->key == key) return slot;
    }
}

static spyre_status u64_grow(arena *memory, map_u64 *map)
{
    map_u64 larger = {.count = map->count, .capacity = larger_capacity(map->capacity)};
    if (!larger.capacity) return status_no_memory();
    larger.slots = ARENA_NEW(memory, map_u64_slot, larger.capacity);
    TRY_ALLOC(larger.slots);
    for (uint32_t i = 0; i < map->capacity; i++) {
        const map_u64_slot *old = &map->slots[i];
        if (old->occupied) *u64_slot(&larger, old->key) = *old;
    }
    *map = larger;
    return NULL;
}

static spyre_status u64_entry(arena *memory, map_u64 *map, uint64_t key, uint32_t fresh,
                              map_u64_slot **out_slot)
{
    if (is_full(map->count, map->capacity)) TRY(u64_grow(memory, map));
    map_u64_slot *slot = u64_slot(map, key);
    if (!slot->occupied) {
        *slot = (map_u64_slot){.key = key, .value = fresh, .occupied = 1};
        map->count++;
    }
    *out_slot = slot;
    return NULL;
}

bool map_u64_get(const map_u64 *map, uint64_t key, uint32_t *out_value)
{
    if (map->count == 0) return false;
    const map_u64_slot *slot = u64_slot(map, key);
    if (!slot->occupied) return false;
    *out_value = slot->value;
    return true;
}

spyre_status map_u64_put(arena *memory, map_u64 *map, uint64_t key, uint32_t value)
{
    map_u64_slot *slot;
    TRY(u64_entry(memory, map, key, value, &slot));
    slot->value = value;
    return NULL;
}
