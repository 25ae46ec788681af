// SPDX-License-Identifier: Apache-2.0
//
// From an instruction to a tile: what it touches, its dims merged, who executes it.
#include <stdlib.h>

#include "card/matmul/matmul.h"

// Far beyond memory, far below overflow.
#define ROWS_REACH (1LL << 48)

byte_range plan_span(const isa_instruction *i, uint32_t o)
{
    const isa_operand *operand = &i->operand[o];
    byte_range r = {0, spyre_format_bytes(operand->format)};
    if (i->opcode != ISA_MATMUL) {
        for (uint32_t d = 0; d < i->dim_count; d++)
            range_repeat(&r, operand->stride[d], i->extent[d]);
        return r;
    }
    int64_t lanes = matmul_lanes(i), k = i->extent[2];
    r.high *= o == 1 && k < lanes ? k : lanes;
    if (o < 2) range_repeat(&r, operand->stride[0], i->extent[0]);
    if (o != 1) range_repeat(&r, operand->stride[1], i->extent[1]);
    if (o > 0) range_repeat(&r, operand->stride[2], o == 1 ? (k + lanes - 1) / lanes : k);
    return r;
}

static bool can_merge(const plan_tile *tile, uint32_t outer, uint32_t operands)
{
    for (uint32_t o = 0; o < operands; o++) {
        uint64_t inner = (uint64_t)tile->stride[o][outer + 1];
        uint64_t whole = inner * (uint64_t)tile->extent[outer + 1];
        if ((uint64_t)tile->stride[o][outer] != whole) return false;
    }
    return true;
}

static void drop_dim(plan_tile *tile, uint32_t dim)
{
    for (uint32_t d = dim; d + 1 < tile->dim_count; d++) {
        tile->extent[d] = tile->extent[d + 1];
        for (uint32_t o = 0; o < tile->instruction->operand_count; o++)
            tile->stride[o][d] = tile->stride[o][d + 1];
    }
    tile->dim_count--;
}

// Merging keeps the order of elements, which REDUCE depends on.
static void merge_dims(plan_tile *tile)
{
    for (uint32_t d = tile->dim_count - 1; d-- > 0;) {
        if (!can_merge(tile, d, tile->instruction->operand_count)) continue;
        tile->extent[d + 1] *= tile->extent[d];
        drop_dim(tile, d);
    }
}

static void normalise(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    uint32_t operands = i->operand_count;
    for (uint32_t d = 0; d < i->dim_count; d++) {
        if (i->extent[d] == 1) continue;
        tile->extent[tile->dim_count] = i->extent[d];
        for (uint32_t o = 0; o < operands; o++)
            tile->stride[o][tile->dim_count] = i->operand[o].stride[d];
        tile->dim_count++;
    }
    if (tile->dim_count == 0) tile->extent[tile->dim_count++] = 1;
    merge_dims(tile);
}

// Rows that follow each other lie near each other in the table: dims along which the row does not
// move go around those that name it.
static void gather_by_planes(plan_tile *tile)
{
    for (uint32_t d = 1; d + 1 < tile->dim_count; d++)
        for (uint32_t e = d; e > 0 && tile->stride[2][e - 1] && !tile->stride[2][e]; e--)
            plan_swap_dims(tile, e - 1, e);
}

// A GATHER of elements keeps the offsets of rows that runs share.
void plan_order_dims(plan_tile *tile)
{
    uint32_t last = tile->dim_count - 1;
    bool gathers = tile->instruction->opcode == ISA_GATHER;
    if (gathers && tile->stride[2][last]) return;
    for (uint32_t d = 1; d <= last; d++)
        for (uint32_t e = d; e > 0 && tile->stride[0][e - 1] < tile->stride[0][e]; e--)
            plan_swap_dims(tile, e - 1, e);
    if (gathers) gather_by_planes(tile);
    merge_dims(tile);
    tile->executor = tile_choose(tile);
}

static spyre_status check_rows(const isa_instruction *i)
{
    int64_t reach;
    if (__builtin_mul_overflow(i->row_stride, i->row_count, &reach) || llabs(reach) > ROWS_REACH) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%lld rows of %lld bytes leave the address space",
                          (long long)i->row_count, (long long)i->row_stride);
    }
    return NULL;
}

spyre_status plan_make_tile(arena *memory, const isa_instruction *i, plan_tile **out_tile)
{
    TRY(check_rows(i));
    plan_tile *tile = ARENA_NEW(memory, plan_tile, 1);
    TRY_ALLOC(tile);
    tile->instruction = i;
    for (uint32_t o = 0; o < i->operand_count; o++) tile->span[o] = plan_span(i, o);
    if (i->opcode == ISA_MATMUL) {
        if (matmul_is_fast(i->operand[1].format, i->operand[2].format))
            TRY(product_of(memory, i, &tile->product));
    } else {
        normalise(tile);
    }
    tile->executor = tile_choose(tile);
    *out_tile = tile;
    return NULL;
}

spyre_status plan_copy_tile(arena *memory, const isa_instruction *i, plan_tile **out_tile)
{
    const isa_instruction *copy = isa_clone(memory, i);
    TRY_ALLOC(copy);
    return plan_make_tile(memory, copy, out_tile);
}
