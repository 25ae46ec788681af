// SPDX-License-Identifier: Apache-2.0
//
// Growable arrays inside an arena. `VEC(T)` declares the struct; items[0..count) are valid.
// Growing copies, so keep ids, not pointers, across a push.
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define VEC(T)             \
    struct {               \
        T *items;          \
        uint32_t count;    \
        uint32_t capacity; \
    }

// Appends `value`; an expression of type spyre_status.
#define VEC_PUSH(memory, vec, value)                                                            \
    ((vec)->count < (vec)->capacity ||                                                          \
             vec_reserve((memory), (void **)(void *)&(vec)->items, &(vec)->capacity,            \
                         sizeof *(vec)->items)                                                  \
         ? ((void)((vec)->items[(vec)->count++] = (value)), (spyre_status)0)                    \
         : status_no_memory())

// Room for `room` items in an empty vec, so that growing leaves nothing behind; of type
// spyre_status.
#define VEC_ROOM(memory, vec, room)                                                             \
    (((vec)->items = arena_alloc_array((memory), (room), sizeof *(vec)->items))                 \
         ? ((void)((vec)->capacity = (room)), (spyre_status)0)                                  \
         : status_no_memory())

// Gives back room that a vec does not use, if nothing was allocated behind it.
#define VEC_FIT(memory, vec)                                                                    \
    vec_fit((memory), (vec)->items, (vec)->count, &(vec)->capacity, sizeof *(vec)->items)

// Makes room for more items; false when memory is short.
bool vec_reserve(arena *memory, void **items, uint32_t *capacity, size_t item_bytes);

void vec_fit(arena *memory, void *items, uint32_t count, uint32_t *capacity, size_t item_bytes);

#endif
