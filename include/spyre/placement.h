// SPDX-License-Identifier: Apache-2.0
//
// Where card memory lies. A card has SPYRE_MEMORY_DOMAINS memory domains of one region each: domain
// k is segment k of the address space, 16 GiB, which every core reaches alike. An allocation lies
// in one chunk, or is divided over domains (torch-spyre's specification of program execution: a
// composite address, an ordered list of chunks). An address of the runtime always names all of an
// allocation as one range, of which transfers, launches and views see no chunks; the card's address
// translation does that. Thread safe.
#ifndef SPYRE_PLACEMENT_H
#define SPYRE_PLACEMENT_H

#include "spyre/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_MEMORY_DOMAINS = 7 };

// ANYWHERE: one chunk in the domain that has a place. BIND: one chunk in a domain given.
// INTERLEAVE: one chunk in each of some domains.
typedef enum { SPYRE_PLACE_ANYWHERE, SPYRE_PLACE_BIND, SPYRE_PLACE_INTERLEAVE } spyre_place_kind;

typedef struct {
    spyre_place_kind kind;
    uint32_t domains;                   // a bit each: one of them of BIND, 0 all of INTERLEAVE
} spyre_placement;

// Bytes of an allocation that follow one another in one region, behind those of the chunks before.
typedef struct {
    uint32_t region, domain;            // equal on this card
    uint64_t offset;                    // in the region, a multiple of 128
    int64_t bytes;
} spyre_chunk;

// SPYRE_INVALID_ARGUMENT names domains that do not exist, or that a kind cannot have.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_placement_check(const spyre_placement *placement);

// spyre_memory_allocate() at a place. Interleaved chunks are whole pages of the host, as equal as
// that allows, in ascending order of domains: what takes fewer pages than there are domains has a
// chunk a page. At most 16 GiB, which reserve as many addresses once more.
// SPYRE_INVALID_ARGUMENT names a domain that does not exist, SPYRE_OUT_OF_MEMORY the one that is
// full.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_place(spyre_context *context, uint32_t card,
                                                           uint32_t stream, int64_t bytes,
                                                           const spyre_placement *placement,
                                                           uint64_t *out_address);

// The chunks of the allocation that holds `address`, all of them, rounded bytes included.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_chunks(
    spyre_context *context, uint32_t card, uint64_t address,
    spyre_chunk out_chunks[SPYRE_MEMORY_DOMAINS], uint32_t *out_count);

// Bytes that are free in each domain.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_memory_domains(
    spyre_context *context, uint32_t card, int64_t out_free_bytes[SPYRE_MEMORY_DOMAINS]);

#ifdef __cplusplus
}
#endif
#endif
