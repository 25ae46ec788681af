// SPDX-License-Identifier: Apache-2.0
#include "base/vec.h"

#include <stdint.h>

bool vec_reserve(arena *memory, void **items, uint32_t *capacity, size_t item_bytes)
{
    if (*capacity > UINT32_MAX / 2) return false;
    uint32_t larger = *capacity ? *capacity * 2 : 8;
    if (larger > SIZE_MAX / item_bytes) return false;
    void *moved = arena_grow(memory, *items, *capacity * item_bytes, larger * item_bytes);
    if (!moved) return false;
    *items = moved;
    *capacity = larger;
    return true;
}

void vec_fit(arena *memory, void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (!count) return;
    arena_trim(memory, items, *capacity * item_bytes, count * item_bytes);
    *capacity = count;
}
