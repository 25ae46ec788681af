// SPDX-License-Identifier: Apache-2.0
//
// The ring: what a message takes, how far it goes, and what the messages of a kernel take of the
// links that they share.
#include "card/time/time.h"
#include "isa/time_formulas.h"

uint32_t time_hops(uint32_t a, uint32_t b)
{
    uint32_t distance = a > b ? a - b : b - a;
    return distance <= ISA_CORES / 2 ? distance : ISA_CORES - distance;
}

void time_cost_message(const isa_instruction *i, time_cost *out)
{
    out->message_bytes = time_elements(i) * spyre_format_bytes(i->operand[0].format);
    out->us = out->message_bytes / RING_BANDWIDTH;
}

// Every core has a link to each side; messages take the shorter way and load all of them alike.
double time_ring_links_us(double carried_bytes)
{
    return carried_bytes / (2 * ISA_CORES * RING_BANDWIDTH);
}
