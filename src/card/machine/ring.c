// SPDX-License-Identifier: Apache-2.0
#include "card/machine/ring.h"

#include <pthread.h>
#include <stdlib.h>

#include "isa/isa.h"

typedef struct {
    ring_message *first, *last;
} channel;

struct ring {
    pthread_mutex_t lock;
    uint32_t waiting;                       // messages in all channels
    channel channels[ISA_CORES][ISA_CORES]; // [sender][receiver]
};

spyre_status ring_create(ring **out_ring)
{
    ring *r = calloc(1, sizeof *r);
    TRY_ALLOC(r);
    pthread_mutex_init(&r->lock, NULL);
    *out_ring = r;
    return NULL;
}

void ring_destroy(ring *r)
{
    if (!r) return;
    uint32_t sender, receiver;
    ring_clear(r, &sender, &receiver);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

ring_message *ring_message_create(size_t bytes)
{
    ring_message *message = malloc(sizeof *message + bytes);
    if (!message) return NULL;
    message->next = NULL;
    message->bytes = bytes;
    return message;
}

void ring_send(ring *r, uint32_t sender, uint32_t receiver, ring_message *message)
{
    pthread_mutex_lock(&r->lock);
    channel *c = &r->channels[sender][receiver];
    if (c->last) c->last->next = message;
    else c->first = message;
    c->last = message;
    r->waiting++;
    pthread_mutex_unlock(&r->lock);
}

ring_message *ring_receive(ring *r, uint32_t sender, uint32_t receiver)
{
    pthread_mutex_lock(&r->lock);
    channel *c = &r->channels[sender][receiver];
    ring_message *message = c->first;
    if (message) {
        c->first = message->next;
        if (!c->first) c->last = NULL;
        r->waiting--;
    }
    pthread_mutex_unlock(&r->lock);
    return message;
}

bool ring_clear(ring *r, uint32_t *out_sender, uint32_t *out_receiver)
{
    if (r->waiting == 0) return false;
    bool found = false;
    for (uint32_t sender = 0; sender < ISA_CORES; sender++) {
        for (uint32_t receiver = 0; receiver < ISA_CORES; receiver++) {
            ring_message *message;
            while ((message = ring_receive(r, sender, receiver))) {
                if (!found) {
                    *out_sender = sender;
                    *out_receiver = receiver;
                }
                found = true;
                free(message);
            }
        }
    }
    return found;
}
