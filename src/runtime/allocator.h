// SPDX-License-Identifier: Apache-2.0
//
// Addresses of one card: best fit over the free blocks of segments 0 to 6 (segment 7 is for
// programs), in blocks of 128 bytes, neighbours joined when they come free. Segment 0 starts at
// offset 128, so that address 0 is never given. Knows nothing of contents, streams or threads.
#ifndef RUNTIME_ALLOCATOR_H
#define RUNTIME_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { ALLOCATOR_BLOCK_BYTES = 128, ALLOCATOR_SEGMENTS = 7 };

// The tasks that touch a block, kept here for the owner of the allocator.
typedef struct {
    uint64_t sequence;                  // of the last one; 0: none
    uint32_t stream;                    // its stream
    bool several;                       // others, on other streams, may still be under way
    bool inherited;                     // they are of the block's former life
    bool freed;                         // the block waits for them
} block_use;

typedef struct {
    uint64_t address;
    uint64_t bytes;
    block_use use;                      // of a block in use
} allocator_block;

typedef struct {
    allocator_block *items;             // by address
    uint32_t count, capacity;
} allocator_list;

typedef struct {
    allocator_list used, idle;
    uint64_t used_bytes;
    uint64_t limit_bytes;
    uint64_t highest[ALLOCATOR_SEGMENTS];   // end of the highest block ever given, offset
} allocator;

// `limit_bytes` bounds the sum of blocks in use; 0 takes all seven segments.
SPYRE_MUST_CHECK spyre_status allocator_create(uint64_t limit_bytes, allocator *out_allocator);
void allocator_destroy(allocator *a);

uint64_t allocator_round(uint64_t bytes);

// A block of `bytes` rounded up, at least one; SPYRE_OUT_OF_MEMORY names bytes asked and free.
SPYRE_MUST_CHECK spyre_status allocator_take(allocator *a, uint64_t bytes, uint64_t *out_address);

// Gives back the block that starts at `address`; false when there is none.
bool allocator_give(allocator *a, uint64_t address);

// The block in use that holds `address`, or null; valid until the next change.
allocator_block *allocator_find(const allocator *a, uint64_t address);

// Bytes of the address space that blocks have ever covered.
uint64_t allocator_reserved_bytes(const allocator *a);

#endif
