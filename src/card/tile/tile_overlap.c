// SPDX-License-Identifier: Apache-2.0
//
// Whether operands of a tile share bytes in a way that makes the order of elements matter.
#include "card/footprint/levels.h"
#include "card/tile/runs.h"

bool plan_injective(const plan_tile *tile, uint32_t operand)
{
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[operand].format);
    return levels_nest(tile->dim_count, tile->extent, tile->stride[operand], bytes);
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
