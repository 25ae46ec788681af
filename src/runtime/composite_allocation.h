// SPDX-License-Identifier: Apache-2.0
//
// Allocations that are divided over memory domains. All functions with the device's lock held.
#ifndef RUNTIME_COMPOSITE_ALLOCATION_H
#define RUNTIME_COMPOSITE_ALLOCATION_H

#include "runtime/device.h"

// The chunks of the range that begins at its address.
struct composite {
    uint64_t address;
    uint32_t count;
    card_piece chunks[SPYRE_MEMORY_DOMAINS];
};

SPYRE_MUST_CHECK spyre_status composite_take(device *d, int64_t bytes, uint32_t domains,
                                             uint64_t *out_address);

// Gives back range and chunks.
void composite_give(device *d, uint64_t address);

// The chunks of a block of any kind, at most SPYRE_MEMORY_DOMAINS; how many.
uint32_t composite_chunks(device *d, const allocator_block *block, spyre_chunk *out_chunks);

#endif
