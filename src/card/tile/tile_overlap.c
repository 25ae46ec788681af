// SPDX-License-Identifier: Apache-2.0
//
// Whether operands of a tile share bytes in a way that makes the order of elements matter.
#include "card/tile/runs.h"

// No two indices share a byte, found by nesting the strides: each clears all shorter ones.
bool plan_injective(const plan_tile *tile, uint32_t operand)
{
    int64_t covered = spyre_format_bytes(tile->instruction->operand[operand].format);
    bool used[ISA_MAX_DIMS] = {false};
    for (uint32_t round = 0; round < tile->dim_count; round++) {
        uint32_t best = ISA_MAX_DIMS;
        for (uint32_t d = 0; d < tile->dim_count; d++) {
            int64_t stride = tile->stride[operand][d];
            if (stride < 0) return false;
            if (!used[d] && (best == ISA_MAX_DIMS || stride < tile->stride[operand][best]))
                best = d;
        }
        used[best] = true;
        int64_t stride = tile->stride[operand][best];
        if (tile->extent[best] == 1) continue;
        if (stride < covered) return false;
        covered += stride * (tile->extent[best] - 1);
    }
    return true;
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
