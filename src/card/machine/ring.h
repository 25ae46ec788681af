// SPDX-License-Identifier: Apache-2.0
//
// Messages between cores: one queue a (sender, receiver) pair, in order. Sending never blocks.
// Thread safe.
#ifndef CARD_RING_H
#define CARD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ring ring;

typedef struct ring_message {
    struct ring_message *next;
    size_t bytes;
    _Alignas(16) uint8_t data[];
} ring_message;

SPYRE_MUST_CHECK spyre_status ring_create(ring **out_ring);
void ring_destroy(ring *r);

// A message to be filled and sent; null when the host has no memory.
ring_message *ring_message_create(size_t bytes);
void ring_send(ring *r, uint32_t sender, uint32_t receiver, ring_message *message);

// The oldest message, which the caller frees with free(); null when there is none.
ring_message *ring_receive(ring *r, uint32_t sender, uint32_t receiver);

// Drops what was never received; true when there was something, with the first pair.
bool ring_clear(ring *r, uint32_t *out_sender, uint32_t *out_receiver);

#endif
