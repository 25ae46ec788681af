// SPDX-License-Identifier: Apache-2.0
//
// Kernels that do nothing but send and receive, for fast mode: every message is known when the
// program is loaded, so a receiver copies it from the sender's LX into its own, once all cores have
// come to the kernel. The same bytes as through the ring.
#ifndef CARD_EXCHANGE_H
#define CARD_EXCHANGE_H

#include "card/fuse/lx_flow.h"
#include "card/machine.h"

typedef struct {
    uint32_t sender;
    const plan_tile *sent, *received;
} exchange_message;

struct exchange {
    uint32_t first[ISA_CORES + 1];          // of the messages that a core receives
    VEC(exchange_message) messages;
    lx_range sent;                          // of LX, over all cores; must stay until all have it
};

// Copies the bytes of a tile in LX, or of a message without strides (tile: null), to another one of
// as many bytes, in the order of their elements.
void exchange_copy(const plan_tile *to_tile, uint8_t *to, const plan_tile *from_tile,
                   const uint8_t *from, size_t bytes);

size_t exchange_bytes(const plan_tile *tile);

// Matches what kernel `sends` sends with what `receives`, the same kernel or the next, receives.
// Codes have their tiles in tiles[begin..end). Null when they do anything else, when messages are
// left or lacking, or when one is received where another one lies.
SPYRE_MUST_CHECK spyre_status exchange_find(arena *memory, const isa_program *program,
                                            plan_tile *const *tiles, const lx_summary *sends,
                                            const lx_summary *receives, const exchange **out);

// For each stick of a core's LX that messages fill: how many bytes it lay from LX of core 0; -1 for
// others. False when they move anything but whole sticks. Of two to one place the later one counts.
bool exchange_sources(const exchange *x, uint32_t core, int64_t *out_sources);

// A core receives its messages.
void exchange_run(core_run *run, const exchange *x);

#endif
