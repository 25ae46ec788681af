// SPDX-License-Identifier: Apache-2.0
//
// An open hash table from sticks to lists. Accesses come from blocks that are used again after
// every kernel.
#include "card/machine/access_history.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 1 << 12, BLOCK_ACCESSES = 1 << 12 };

typedef struct {
    uint64_t stick;                     // plus 1; 0: free
    access_record *newest;
} slot;

typedef struct block {
    struct block *next;
    access_record accesses[BLOCK_ACCESSES];
} block;

struct access_history {
    slot *slots;
    uint64_t slot_count, used;
    block *first, *current;             // all blocks; the one that accesses are taken from
    uint32_t taken;                     // of the current block
    access_record *spare;
};

spyre_status access_history_create(access_history **out_history)
{
    access_history *s = calloc(1, sizeof *s);
    TRY_ALLOC(s);
    s->slots = calloc(FIRST_SLOTS, sizeof *s->slots);
    s->first = calloc(1, sizeof *s->first);
    s->slot_count = FIRST_SLOTS;
    s->current = s->first;
    if (s->slots && s->first) {
        *out_history = s;
        return NULL;
    }
    access_history_destroy(s);
    return status_no_memory();
}

void access_history_destroy(access_history *s)
{
    if (!s) return;
    while (s->first) {
        block *next = s->first->next;
        free(s->first);
        s->first = next;
    }
    free(s->slots);
    free(s);
}

void access_history_clear(access_history *s)
{
    if (s->used) memset(s->slots, 0, s->slot_count * sizeof *s->slots);
    s->used = 0;
    s->current = s->first;
    s->taken = 0;
    s->spare = NULL;
}

// The slot of a stick, or the free one where it belongs.
static slot *locate(slot *slots, uint64_t slot_count, uint64_t stick)
{
    uint64_t at = (stick * 0x9E3779B97F4A7C15ull) >> 20;
    for (;; at++) {
        slot *found = &slots[at & (slot_count - 1)];
        if (found->stick == 0 || found->stick == stick + 1) return found;
    }
}

static bool grow(access_history *s)
{
    uint64_t count = s->slot_count * 2;
    slot *larger = calloc(count, sizeof *larger);
    if (!larger) return false;
    for (uint64_t n = 0; n < s->slot_count; n++)
        if (s->slots[n].stick) *locate(larger, count, s->slots[n].stick - 1) = s->slots[n];
    free(s->slots);
    s->slots = larger;
    s->slot_count = count;
    return true;
}

static access_record *take(access_history *s)
{
    if (s->spare) {
        access_record *access = s->spare;
        s->spare = access->next;
        return access;
    }
    if (s->taken == BLOCK_ACCESSES) {
        if (!s->current->next) s->current->next = calloc(1, sizeof *s->current);
        if (!s->current->next) return NULL;
        s->current = s->current->next;
        s->taken = 0;
    }
    return &s->current->accesses[s->taken++];
}

access_record *access_history_find(const access_history *s, uint64_t stick)
{
    return locate(s->slots, s->slot_count, stick)->newest;
}

static void drop_superfluous(access_history *s, access_record **at, const access_record *by)
{
    while (*at) {
        access_record *old = *at;
        bool repeated = old->who == by->who && old->writes == by->writes;
        if (by->writes || repeated) old->bytes = stick_mask_without(old->bytes, by->bytes);
        if (stick_mask_empty(old->bytes)) {
            *at = old->next;
            old->next = s->spare;
            s->spare = old;
        } else {
            at = &old->next;
        }
    }
}

bool access_history_add(access_history *s, uint64_t stick, const access_record *access)
{
    if (s->used * 2 > s->slot_count && !grow(s)) return false;
    slot *place = locate(s->slots, s->slot_count, stick);
    if (!place->stick) s->used++;
    place->stick = stick + 1;
    drop_superfluous(s, &place->newest, access);
    access_record *added = take(s);
    if (!added) return false;
    *added = *access;
    added->next = place->newest;
    place->newest = added;
    return true;
}
