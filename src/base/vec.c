// SPDX-License-Identifier: Apache-2.0
#include "base/vec.h"

#include <string.h>

int vec_reserve(arena *memory, void **items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) return 0;
    if (*capacity > UINT32_MAX / 2) return 1;
    uint32_t larger = *capacity ? *capacity * 2 : 8;
    void *moved = arena_alloc_array(memory, larger, item_bytes);
    if (!moved) return 1;
    if (count) memcpy(moved, *items, count * item_bytes);
    *items = moved;
    *capacity = larger;
    return 0;
}
