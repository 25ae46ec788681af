// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_states.h"

#include <string.h>

// --- Slots

void stick_add_slot(stick_search *s, uint32_t buffer)
{
    if (s->slot_of[buffer] != STICK_NO_SLOT) return;
    uint32_t at = s->slot_count++;
    s->slot_of[buffer] = (uint8_t)at;
    s->slot_buffer[at] = buffer;
    for (uint32_t i = 0; i < s->states.count; i++)
        s->states.items[i].slots[at] = s->settled[buffer];
}

static bool is_agreed(const stick_search *s, uint32_t at)
{
    for (uint32_t i = 1; i < s->states.count; i++)
        if (memcmp(&s->states.items[i].slots[at], &s->states.items[0].slots[at],
                   sizeof(stick_slot)))
            return false;
    return true;
}

static void remove_slot(stick_search *s, uint32_t at)
{
    uint32_t last = --s->slot_count, buffer = s->slot_buffer[at];
    if (s->states.count) s->settled[buffer] = s->states.items[0].slots[at];
    s->slot_of[buffer] = STICK_NO_SLOT;
    if (at == last) return;
    s->slot_buffer[at] = s->slot_buffer[last];
    s->slot_of[s->slot_buffer[at]] = (uint8_t)at;
    for (uint32_t i = 0; i < s->states.count; i++)
        s->states.items[i].slots[at] = s->states.items[i].slots[last];
}

uint32_t stick_cheapest(const stick_search *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->states.count; i++)
        if (s->states.items[i].us < s->states.items[best].us) best = i;
    return best;
}

// Keeps the states that have what the cheapest one has in slot `at`.
static void decide_slot(stick_search *s, uint32_t at)
{
    const stick_slot kept = s->states.items[stick_cheapest(s)].slots[at];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->states.count; i++)
        if (memcmp(&s->states.items[i].slots[at], &kept, sizeof kept) == 0)
            s->states.items[count++] = s->states.items[i];
    s->left_out += s->states.count - count;
    s->states.count = count;
}

void stick_settle(stick_search *s)
{
    for (uint32_t at = s->slot_count; at-- > 0;)
        if (is_agreed(s, at)) remove_slot(s, at);
    while (s->slot_count > STICK_MOST_SLOTS) {
        decide_slot(s, 0);
        remove_slot(s, 0);
    }
}

// --- Merging

static uint64_t hash_of(const stick_search *s, const stick_state *from)
{
    uint64_t hash = 1469598103934665603u; // FNV-1a by slots
    for (uint32_t i = 0; i < s->slot_count; i++) {
        uint64_t word = (uint64_t)from->slots[i].copies << 32 | from->slots[i].stick;
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    return hash;
}

static spyre_status grow_table(stick_search *s)
{
    uint32_t size = s->table_size ? s->table_size * 4 : 256;
    TRY_NEW(s->scratch, s->table, size);
    s->table_size = size;
    for (uint32_t i = 0; i < s->next.count; i++) {
        uint64_t at = hash_of(s, &s->next.items[i]);
        while (s->table[at & (size - 1)]) at++;
        s->table[at & (size - 1)] = i + 1;
    }
    return NULL;
}

spyre_status stick_add_state(stick_search *s, const stick_state *made, uint32_t mode)
{
    if (s->next.count * 2 >= s->table_size) TRY(grow_table(s));
    uint64_t at = hash_of(s, made);
    stick_state *same = NULL;
    for (;; at++) {
        uint32_t found = s->table[at & (s->table_size - 1)];
        if (!found) break;
        same = &s->next.items[found - 1];
        if (memcmp(same->slots, made->slots, s->slot_count * sizeof(stick_slot)) == 0) break;
        same = NULL;
    }
    if (same && same->us <= made->us) return NULL;
    const stick_decision step = {made->trail, mode};
    if (same) {
        *same = *made;
    } else {
        s->table[at & (s->table_size - 1)] = s->next.count + 1;
        TRY(VEC_PUSH(s->scratch, &s->next, *made));
        same = &s->next.items[s->next.count - 1];
    }
    same->trail = s->trail.count;
    return VEC_PUSH(s->scratch, &s->trail, step);
}
