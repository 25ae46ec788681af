// SPDX-License-Identifier: Apache-2.0
#include "isa/dims.h"

#include <string.h>

void isa_insert_dim(isa_instruction *i, uint32_t at, uint32_t extent)
{
    const size_t behind = i->dim_count++ - at;
    memmove(i->extent + at + 1, i->extent + at, behind * sizeof *i->extent);
    i->extent[at] = extent;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        int64_t *stride = i->operand[o].stride + at;
        memmove(stride + 1, stride, behind * sizeof *stride);
        *stride = 0;
    }
}

void isa_split_dim(isa_instruction *i, uint32_t dim, uint32_t inner)
{
    isa_insert_dim(i, dim, i->extent[dim] / inner);
    i->extent[dim + 1] = inner;
    for (uint32_t o = 0; o < i->operand_count; o++)
        i->operand[o].stride[dim] = i->operand[o].stride[dim + 1] * inner;
}

void isa_remove_dim(isa_instruction *i, uint32_t dim)
{
    const size_t behind = --i->dim_count - dim;
    memmove(i->extent + dim, i->extent + dim + 1, behind * sizeof *i->extent);
    i->extent[i->dim_count] = 0;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        int64_t *stride = i->operand[o].stride;
        memmove(stride + dim, stride + dim + 1, behind * sizeof *stride);
        stride[i->dim_count] = 0;
    }
}

void isa_remove_single_dims(isa_instruction *i)
{
    for (uint32_t d = i->dim_count; d-- > 0;)
        if (i->extent[d] == 1 && d + 1u < i->dim_count) isa_remove_dim(i, d);
}

bool isa_absorb_loop(isa_instruction *i, uint32_t loop, uint32_t iterations)
{
    const bool moves = iterations > 1;
    if (moves && i->dim_count == ISA_MAX_DIMS) return false;
    if (moves) isa_insert_dim(i, 0, iterations);
    for (uint32_t o = 0; o < i->operand_count; o++) {
        isa_operand *operand = &i->operand[o];
        if (moves) operand->stride[0] = operand->loop_stride[loop];
        operand->loop_stride[loop] = 0;
    }
    return true;
}

bool isa_same_work(const isa_instruction *a, const isa_instruction *b)
{
    return a->opcode == b->opcode && a->op == b->op && a->operand_count == b->operand_count &&
           memcmp(a->constant, b->constant, sizeof a->constant) == 0;
}

bool isa_same_memory(const isa_operand *a, const isa_operand *b)
{
    return a->space == b->space && a->format == b->format && a->arg == b->arg &&
           a->slot == b->slot &&
           memcmp(a->loop_stride, b->loop_stride, sizeof a->loop_stride) == 0;
}
