// SPDX-License-Identifier: Apache-2.0
//
// Whether operands of a tile share bytes in a way that makes the order of elements matter, or lie
// otherwise than its executor needs.
#include "card/footprint/byte_set.h"
#include "card/tile/runs.h"

bool plan_injective(const plan_tile *tile, uint32_t operand)
{
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[operand].format);
    return byte_runs_lie_apart(tile->dim_count, tile->extent, tile->stride[operand], bytes);
}

static bool same_elements(const plan_tile *tile, uint8_t *const *address, uint32_t a, uint32_t b)
{
    const isa_instruction *i = tile->instruction;
    uint32_t bytes = spyre_format_bytes(i->operand[a].format);
    if (address[a] != address[b]) return false;
    if (bytes != spyre_format_bytes(i->operand[b].format)) return false;
    for (uint32_t d = 0; d < tile->dim_count; d++)
        if (tile->stride[a][d] != tile->stride[b][d]) return false;
    return true;
}

bool plan_independent(const plan_tile *tile, uint8_t *const *address, uint32_t operand)
{
    if (runs_disjoint(tile, address, 0, operand)) return true;
    return same_elements(tile, address, 0, operand) && plan_injective(tile, 0);
}

static bool is_aligned(const isa_operand *operand, const uint8_t *address)
{
    return (uintptr_t)address % spyre_format_bytes(operand->format) == 0;
}

static bool has_needs(const plan_tile *tile, uint8_t *const *address)
{
    const uint32_t needs = tile->executor.needs;
    const isa_instruction *i = tile->instruction;
    if (needs & NEEDS_INDEX_APART && !runs_disjoint(tile, address, 0, 2)) return false;
    if (needs & NEEDS_ALIGNED && !is_aligned(&i->operand[0], address[0])) return false;
    for (uint32_t o = 1; o < i->operand_count; o++) {
        if (needs & NEEDS_INDEPENDENT && !plan_independent(tile, address, o)) return false;
        if (needs & NEEDS_APART && !runs_disjoint(tile, address, 0, o)) return false;
        if (needs & NEEDS_ALIGNED && !is_aligned(&i->operand[o], address[o])) return false;
    }
    return true;
}

void tile_run(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (has_needs(tile, address) ? tile->executor.run : exact_run)(tile, address, scratch);
}
