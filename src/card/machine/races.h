// SPDX-License-Identifier: Apache-2.0
//
// Races of a kernel. Order is that of vector clocks, one component a queue of the card. A SIGNAL
// hands its queue's clock to the token, a WAIT takes the oldest one; a SEND hands it to the
// message. So a race is found whatever order the queues happened to run in, where a token has one
// queue that signals it. Every stick that was touched in a kernel has a list of who touched which
// of its bytes when (access_history.h).
//
// One thread at a time. Internal to the checker.
#ifndef CARD_RACES_H
#define CARD_RACES_H

#include "card/machine/access_history.h"
#include "isa/isa.h"

typedef struct races races;

SPYRE_MUST_CHECK spyre_status races_create(races **out_races);
void races_destroy(races *r);

// All cores and queues have met.
void races_begin_kernel(races *r);

// Drops the messages that no core has received.
void races_end_launch(races *r);

// A queue of the card as one number, and back.
static inline uint16_t races_who(uint32_t core, isa_queue queue)
{
    return (uint16_t)(core * ISA_QUEUE_COUNT + (uint32_t)queue);
}

// The order that a step makes. False when the host has no memory.
bool races_signal(races *r, uint32_t core, isa_queue queue, uint32_t token);
void races_wait(races *r, uint32_t core, isa_queue queue, uint32_t token);
bool races_send(races *r, uint32_t sender, uint32_t receiver);
void races_receive(races *r, uint32_t receiver, uint32_t sender);

// Adds an access to bytes of a stick, whose clock is set here. *out_other: the access of another
// queue that nothing orders with it, in whose place nothing is added; or null. False when the host
// has no memory.
bool races_add(races *r, uint64_t stick, access_record access, const access_record **out_other);

#endif
