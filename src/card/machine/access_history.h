// SPDX-License-Identifier: Apache-2.0
//
// Who touched which bytes of which stick in this kernel. Internal to the checker.
#ifndef CARD_ACCESS_HISTORY_H
#define CARD_ACCESS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

// Bytes of a stick, bit n of half[n / 64].
typedef struct {
    uint64_t half[2];
} stick_mask;

// One access to bytes of a stick. `who` is a queue of the card.
typedef struct access_record {
    struct access_record *next;
    stick_mask bytes;
    uint32_t clock, instruction;
    uint16_t who;
    bool writes;
} access_record;

typedef struct access_history access_history;

SPYRE_MUST_CHECK spyre_status access_history_create(access_history **out_history);
void access_history_destroy(access_history *s);
void access_history_clear(access_history *s);

// The accesses to a stick, newest first.
access_record *access_history_find(const access_history *s, uint64_t stick);

// Adds an access; what it makes superfluous goes: of its own queue what it repeats, and when it
// writes, whatever it overwrites. False when the host has no memory.
bool access_history_add(access_history *s, uint64_t stick, const access_record *access);

static inline stick_mask stick_mask_range(uint32_t low, uint32_t high)
{
    stick_mask mask;
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t from = low > 64 * h ? low - 64 * h : 0, to = high > 64 * h ? high - 64 * h : 0;
        uint64_t below_to = to >= 64 ? UINT64_MAX : (1ull << to) - 1;
        uint64_t below_from = from >= 64 ? UINT64_MAX : (1ull << from) - 1;
        mask.half[h] = below_to & ~below_from;
    }
    return mask;
}

static inline bool stick_mask_meets(stick_mask a, stick_mask b)
{
    return (a.half[0] & b.half[0]) || (a.half[1] & b.half[1]);
}

static inline bool stick_mask_empty(stick_mask a)
{
    return !a.half[0] && !a.half[1];
}

static inline stick_mask stick_mask_join(stick_mask a, stick_mask b)
{
    return (stick_mask){{a.half[0] | b.half[0], a.half[1] | b.half[1]}};
}

// a without b.
static inline stick_mask stick_mask_without(stick_mask a, stick_mask b)
{
    return (stick_mask){{a.half[0] & ~b.half[0], a.half[1] & ~b.half[1]}};
}

#endif
