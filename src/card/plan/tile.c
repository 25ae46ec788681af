// SPDX-License-Identifier: Apache-2.0
//
// From an instruction to a tile: what it touches, its dims merged, who executes it.
#include <stdlib.h>

#include "card/matmul/matmul.h"

// Far beyond memory, far below overflow.
#define ROWS_REACH (1LL << 48)

static void span_matmul(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    int64_t lanes = matmul_lanes(i), k = i->extent[2];
    int64_t element[3];
    for (int o = 0; o < 3; o++) element[o] = spyre_format_bytes(i->operand[o].format);
    const isa_operand *c = &i->operand[0], *a = &i->operand[1], *b = &i->operand[2];
    tile->span[0].high = lanes * element[0];
    range_repeat(&tile->span[0], c->stride[0], i->extent[0]);
    range_repeat(&tile->span[0], c->stride[1], i->extent[1]);
    tile->span[1].high = (k < lanes ? k : lanes) * element[1];
    range_repeat(&tile->span[1], a->stride[0], i->extent[0]);
    range_repeat(&tile->span[1], a->stride[2], (k + lanes - 1) / lanes);
    tile->span[2].high = lanes * element[2];
    range_repeat(&tile->span[2], b->stride[2], k);
    range_repeat(&tile->span[2], b->stride[1], i->extent[1]);
}

static void span_plain(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        tile->span[o].high = spyre_format_bytes(i->operand[o].format);
        for (uint32_t d = 0; d < i->dim_count; d++)
            range_repeat(&tile->span[o], i->operand[o].stride[d], i->extent[d]);
    }
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

// Merging keeps the order of elements, which REDUCE depends on.
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
    for (uint32_t d = tile->dim_count - 1; d-- > 0;) {
        if (!can_merge(tile, d, operands)) continue;
        tile->extent[d] *= tile->extent[d + 1];
        for (uint32_t o = 0; o < operands; o++) tile->stride[o][d] = tile->stride[o][d + 1];
        for (uint32_t later = d + 1; later + 1 < tile->dim_count; later++) {
            tile->extent[later] = tile->extent[later + 1];
            for (uint32_t o = 0; o < operands; o++)
                tile->stride[o][later] = tile->stride[o][later + 1];
        }
        tile->dim_count--;
    }
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
    if (i->opcode == ISA_MATMUL) {
        span_matmul(tile);
        if (matmul_is_fast(i->operand[1].format, i->operand[2].format))
            TRY(product_of(memory, i, &tile->product));
    } else {
        span_plain(tile);
        normalise(tile);
    }
    if (i->opcode == ISA_VECTOR && opfunc_describe(i->op)->kind == OPFUNC_KIND_UNARY)
        TRY_ALLOC(opfunc_dl16_table(i->op));
    tile->run = tile_choose(tile);
    *out_tile = tile;
    return NULL;
}
