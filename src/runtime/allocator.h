// SPDX-License-Identifier: Apache-2.0
//
// Addresses of one card: best fit over the free blocks of segments 0 to 6 (segment 7 is for
// programs), in blocks of 128 bytes, neighbours joined when they come free; of equal fits the one
// freed last. Segment 0 starts at offset 128, so that address 0 is never given. Knows which pages
// of the host the blocks have touched, but nothing of contents, streams or threads.
#ifndef RUNTIME_ALLOCATOR_H
#define RUNTIME_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

// A page is what the host backs and takes back: the size of a huge page of x86-64 and of arm64.
enum { ALLOCATOR_BLOCK_BYTES = 128, ALLOCATOR_PAGE_BYTES = 2 << 20, ALLOCATOR_SEGMENTS = 7 };

// Large blocks begin at multiples of a page, where there is room. Hosts first compare the bits
// within a page of two addresses: a load a stick ahead of a store in another tensor would seem to
// be of what is stored, and wait.
enum { ALLOCATOR_LARGE_BYTES = 64 << 10, ALLOCATOR_ALIGN_BYTES = 4096 };

#define ALLOCATOR_ANY_SEGMENT UINT32_MAX

// MEMORY: bytes for a user. CHUNK: bytes of an allocation that lies in several. RANGE: addresses
// through which such an allocation is one; they count as no bytes and touch no pages.
typedef enum { ALLOCATOR_MEMORY, ALLOCATOR_CHUNK, ALLOCATOR_RANGE } allocator_kind;

typedef struct {
    uint64_t bytes;
    uint32_t segment;                   // or ALLOCATOR_ANY_SEGMENT
    uint64_t align_bytes;               // of the address, a multiple of ALLOCATOR_BLOCK_BYTES
    allocator_kind kind;
} allocator_request;

// The tasks that touch a block, kept here for the owner of the allocator.
typedef struct {
    uint64_t sequence;                  // of the last one; 0: none
    uint32_t stream;                    // its stream
    bool several;                       // others, on other streams, may still be under way
    bool inherited;                     // they are of the block's former life
    bool freed;                         // the block waits for them
    bool lost;                          // what it should hold was never written
} block_use;

typedef struct {
    uint64_t address;
    uint64_t bytes;
    allocator_kind kind;
    block_use use;
} allocator_block;

typedef struct {
    uint32_t place;                     // address / ALLOCATOR_BLOCK_BYTES
    uint32_t block;                     // index into blocks
} allocator_entry;

// Places of a table of the blocks handed out last, by where they start; launches look there first.
enum { ALLOCATOR_STARTS = 256 };

typedef struct {
    uint64_t address;
    uint64_t bytes;
    uint64_t age;                       // of the last free that made it; larger is later
} allocator_gap;

typedef struct {
    allocator_block *blocks;            // in use or, from `unused_block` on, a list of unused ones
    uint32_t block_count, block_capacity, unused_block;
    allocator_entry *used;              // by address
    uint32_t used_count, used_capacity;
    allocator_entry starts[ALLOCATOR_STARTS];   // by place; place 0, which no block has: none
    allocator_gap *gaps;                // by address
    uint32_t gap_count, gap_capacity;
    uint64_t age;
    uint64_t *backed;                   // a bit a page
    uint64_t used_bytes, reserved_bytes;
    uint64_t peak_reserved_bytes, total_reserved_bytes, total_released_bytes;
    uint64_t limit_bytes;
    const char *limited_by;             // what bounds it to less than the segments have; or null
} allocator;

// Gives whole pages back to the host.
typedef void allocator_release(void *context, uint64_t address, uint64_t bytes);

// Bytes of all seven segments that blocks may have.
#define ALLOCATOR_MOST_BYTES (ALLOCATOR_SEGMENTS * CARD_SEGMENT_BYTES - ALLOCATOR_BLOCK_BYTES)

SPYRE_MUST_CHECK spyre_status allocator_create(allocator *out_allocator);

// Bounds the sum of blocks in use; blocks that are in use stay. Messages name `limited_by`, which
// is not copied, where the limit is less than the segments have.
void allocator_limit(allocator *a, uint64_t limit_bytes, const char *limited_by);

// Of the limit, less the blocks in use; 0 where they are more.
uint64_t allocator_left_bytes(const allocator *a);

void allocator_destroy(allocator *a);

uint64_t allocator_round(uint64_t bytes);

// A block of `bytes` rounded up, at least one; SPYRE_OUT_OF_MEMORY names bytes asked and free.
SPYRE_MUST_CHECK spyre_status allocator_take(allocator *a, uint64_t bytes, uint64_t *out_address);

// The same as the request says; the message names its segment as a memory domain.
SPYRE_MUST_CHECK spyre_status allocator_take_as(allocator *a, const allocator_request *request,
                                                uint64_t *out_address);

// Gives back the block that starts at `address`; false when there is none.
bool allocator_give(allocator *a, uint64_t address);

// The block in use that holds `address`, or null; valid until the next change.
allocator_block *allocator_find(const allocator *a, uint64_t address);

// Bytes of a segment that no block has; addresses of ranges count as taken.
uint64_t allocator_free_bytes(const allocator *a, uint32_t segment);

// Releases pages that no block in use touches, those freed longest ago first, until at most
// `idle_bytes` of backed memory are idle.
void allocator_trim(allocator *a, uint64_t idle_bytes, allocator_release *release, void *context);

// Releases the backed pages that lie wholly in a range in which no bytes are in use.
void allocator_release_range(allocator *a, uint64_t address, uint64_t bytes,
                             allocator_release *release, void *context);

#endif
