// SPDX-License-Identifier: Apache-2.0
//
// An allocation over several domains is a block of addresses without bytes, the range, and a block
// in each domain, the chunks; the card maps the chunks into the range. Tasks, windows and frees
// know the range alone, so an order of streams needs no other rule. Handing out chunks and cutting
// launches at them instead would give every instruction up to seven address ranges, and a tile
// across two of them no way to run.
#include "runtime/composite_allocation.h"

#include <stdlib.h>

static void discard(void *machine, uint64_t address, uint64_t bytes)
{
    card_memory_discard(machine, address, bytes);
}

static void give_chunks(device *d, composite *c)
{
    while (c->count > 0) allocator_give(&d->memory, c->chunks[--c->count].address);
}

// As many pages in each as in the others, the first ones one more.
static spyre_status take_chunks(device *d, composite *c, uint64_t pages, uint32_t domains)
{
    uint64_t page_bytes = card_page_bytes();
    uint32_t parts = (uint32_t)__builtin_popcount(domains);
    if (pages < parts) parts = (uint32_t)pages;
    for (uint32_t k = 0; k < SPYRE_MEMORY_DOMAINS && c->count < parts; k++) {
        if (!(domains >> k & 1)) continue;
        uint64_t share = pages / parts + (c->count < pages % parts);
        card_piece chunk = {.bytes = share * page_bytes};
        const allocator_request request = {chunk.bytes, k, page_bytes, ALLOCATOR_CHUNK};
        TRY(allocator_take_as(&d->memory, &request, &chunk.address));
        c->chunks[c->count++] = chunk;
    }
    return NULL;
}

static spyre_status take_range(device *d, composite *c, uint64_t pages)
{
    const allocator_request request = {pages * card_page_bytes(), ALLOCATOR_ANY_SEGMENT,
                                       card_page_bytes(), ALLOCATOR_RANGE};
    TRY(allocator_take_as(&d->memory, &request, &c->address));
    allocator_release_range(&d->memory, c->address, request.bytes, discard, d->machine);
    spyre_status status = card_memory_compose(d->machine, c->address, c->chunks, c->count);
    if (status) allocator_give(&d->memory, c->address);
    return status;
}

static spyre_status take(device *d, composite *c, uint64_t pages, uint32_t domains)
{
    TRY(take_chunks(d, c, pages, domains));
    return take_range(d, c, pages);
}

spyre_status composite_take(device *d, int64_t bytes, uint32_t domains, uint64_t *out_address)
{
    uint64_t page_bytes = card_page_bytes();
    uint64_t pages = ((uint64_t)bytes + page_bytes - 1) / page_bytes;
    composite *grown = realloc(d->composites, (d->composite_count + 1) * sizeof *grown);
    TRY_ALLOC(grown);
    d->composites = grown;
    composite *c = &grown[d->composite_count];
    c->count = 0;
    spyre_status status = take(d, c, pages ? pages : 1, domains);
    if (status) {
        give_chunks(d, c);
        return status;
    }
    d->composite_count++;
    *out_address = c->address;
    return NULL;
}

static composite *composite_at(device *d, uint64_t address)
{
    composite *c = d->composites;
    while (c->address != address) c++;
    return c;
}

void composite_give(device *d, uint64_t address)
{
    composite *c = composite_at(d, address);
    card_memory_separate(d->machine, address, c->chunks, c->count);
    give_chunks(d, c);
    allocator_give(&d->memory, address);
    *c = d->composites[--d->composite_count];
}

uint32_t composite_chunks(device *d, const allocator_block *block, spyre_chunk *out_chunks)
{
    const composite one = {.count = 1, .chunks = {{block->address, block->bytes}}};
    const composite *c = block->kind == ALLOCATOR_RANGE ? composite_at(d, block->address) : &one;
    for (uint32_t n = 0; n < c->count; n++) {
        uint32_t region = (uint32_t)(c->chunks[n].address / CARD_SEGMENT_BYTES);
        out_chunks[n] = (spyre_chunk){.region = region, .domain = region,
                                      .offset = c->chunks[n].address % CARD_SEGMENT_BYTES,
                                      .bytes = (int64_t)c->chunks[n].bytes};
    }
    return c->count;
}
