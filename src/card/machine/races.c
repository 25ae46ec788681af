// SPDX-License-Identifier: Apache-2.0
#include "card/machine/races.h"

#include <stdlib.h>
#include <string.h>

enum { WHO_COUNT = ISA_CORES * ISA_QUEUE_COUNT };

typedef uint32_t clock_vector[WHO_COUNT];

// A clock on its way: with a token or a message. Oldest first in a list.
typedef struct parcel {
    struct parcel *next;
    uint64_t kernel;                    // serial of the one it was sent in
    clock_vector clock;
} parcel;

typedef struct {
    parcel *first, *last;
} parcels;

struct races {
    uint64_t kernel;                    // serial
    clock_vector clock[WHO_COUNT];
    parcels tokens[ISA_CORES][ISA_MAX_TOKENS];
    parcels messages[ISA_CORES][ISA_CORES];     // [sender][receiver]
    access_history *touched;
};

spyre_status races_create(races **out_races)
{
    races *r = calloc(1, sizeof *r);
    TRY_ALLOC(r);
    spyre_status status = access_history_create(&r->touched);
    if (status) free(r);
    else *out_races = r;
    return status;
}

static void clear_parcels(parcels *list)
{
    while (list->first) {
        parcel *next = list->first->next;
        free(list->first);
        list->first = next;
    }
    list->last = NULL;
}

static void clear_tokens(races *r)
{
    for (uint32_t core = 0; core < ISA_CORES; core++)
        for (uint32_t t = 0; t < ISA_MAX_TOKENS; t++) clear_parcels(&r->tokens[core][t]);
}

void races_end_launch(races *r)
{
    clear_tokens(r);
    for (uint32_t core = 0; core < ISA_CORES; core++)
        for (uint32_t to = 0; to < ISA_CORES; to++) clear_parcels(&r->messages[core][to]);
}

void races_destroy(races *r)
{
    if (!r) return;
    races_end_launch(r);
    access_history_destroy(r->touched);
    free(r);
}

void races_begin_kernel(races *r)
{
    r->kernel++;
    access_history_clear(r->touched);
    memset(r->clock, 0, sizeof r->clock);
    for (uint32_t who = 0; who < WHO_COUNT; who++) r->clock[who][who] = 1;
    clear_tokens(r);
}

// --- Order

// Hands over the clock; what the queue does from now on is later than it.
static bool hand_over(races *r, uint32_t who, parcels *to)
{
    parcel *p = malloc(sizeof *p);
    if (!p) return false;
    p->next = NULL;
    p->kernel = r->kernel;
    memcpy(p->clock, r->clock[who], sizeof p->clock);
    if (to->last) to->last->next = p;
    else to->first = p;
    to->last = p;
    r->clock[who][who]++;
    return true;
}

// What was sent in an earlier kernel orders nothing in this one: all have met since.
static void take_over(races *r, uint32_t who, parcels *from)
{
    parcel *p = from->first;
    if (!p) return;
    from->first = p->next;
    if (!from->first) from->last = NULL;
    for (uint32_t n = 0; n < WHO_COUNT && p->kernel == r->kernel; n++)
        if (r->clock[who][n] < p->clock[n]) r->clock[who][n] = p->clock[n];
    free(p);
}

bool races_signal(races *r, uint32_t core, isa_queue queue, uint32_t token)
{
    return hand_over(r, races_who(core, queue), &r->tokens[core][token]);
}

void races_wait(races *r, uint32_t core, isa_queue queue, uint32_t token)
{
    take_over(r, races_who(core, queue), &r->tokens[core][token]);
}

bool races_send(races *r, uint32_t sender, uint32_t receiver)
{
    return hand_over(r, races_who(sender, ISA_QUEUE_RING), &r->messages[sender][receiver]);
}

void races_receive(races *r, uint32_t receiver, uint32_t sender)
{
    take_over(r, races_who(receiver, ISA_QUEUE_RING), &r->messages[sender][receiver]);
}

// --- Accesses

bool races_add(races *r, uint64_t stick, access_record access, const access_record **out_other)
{
    *out_other = NULL;
    for (const access_record *o = access_history_find(r->touched, stick); o; o = o->next) {
        bool conflict = o->who != access.who && (o->writes || access.writes) &&
                        stick_mask_meets(o->bytes, access.bytes);
        if (!conflict || o->clock <= r->clock[access.who][o->who]) continue;
        *out_other = o;
        return true;
    }
    access.clock = r->clock[access.who][access.who];
    return access_history_add(r->touched, stick, &access);
}
