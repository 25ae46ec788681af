// SPDX-License-Identifier: Apache-2.0
//
// Kernels that do nothing but send and receive, as copies: a receiver copies each message from the
// LX of its sender into its own, once all cores have come to the kernel. The same bytes as through
// the ring.
#ifndef CARD_MESSAGES_H
#define CARD_MESSAGES_H

#include "card/footprint/lx_liveness.h"
#include "card/machine.h"

typedef struct {
    uint32_t sender;
    const plan_tile *sent, *received;
} message_copy;

struct message_copies {
    uint32_t first[ISA_CORES + 1];          // of the messages that a core receives
    VEC(message_copy) list;
    byte_range sent;                        // of LX, over all cores; must stay until all have it
};

// Copies the bytes of a tile in LX, or of a message without strides (tile: null), to another one of
// as many bytes, in the order of their elements.
void message_copy_bytes(const plan_tile *to_tile, uint8_t *to, const plan_tile *from_tile,
                        const uint8_t *from, size_t bytes);

size_t message_bytes(const plan_tile *tile);

// For each stick of a core's LX that messages fill: how many bytes it lay from LX of core 0; -1 for
// others in *out_received, all that they fill. False when they move anything but whole sticks. Of
// two to one place the later one counts.
bool messages_sources(const message_copies *x, uint32_t core, int64_t *out_sources,
                      byte_range *out_received);

// A core receives its messages.
void messages_run(core_run *run, const message_copies *x);

#endif
