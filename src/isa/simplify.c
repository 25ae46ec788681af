// SPDX-License-Identifier: Apache-2.0
//
// The plainest form of a program's tiles, for comparing programs. Dims whose places have a meaning
// of their own stay: all of MATMUL and of rankings, the one that FOLD folds.
#include "isa/dims.h"
#include "isa/field_counts.h"
#include "isa/corrections.h"

static bool is_one_walk(const isa_instruction *i, uint32_t outer)
{
    for (uint32_t o = 0; o < i->operand_count; o++) {
        const int64_t *stride = i->operand[o].stride;
        int64_t whole;
        if (__builtin_mul_overflow(stride[outer + 1], (int64_t)i->extent[outer + 1], &whole) ||
            stride[outer] != whole)
            return false;
    }
    return (uint64_t)i->extent[outer] * i->extent[outer + 1] <= UINT32_MAX;
}

static void simplify_tile(isa_instruction *i)
{
    uint32_t free = i->dim_count;           // dims that may go
    if (i->opcode == ISA_MATMUL || i->opcode == ISA_RANK || i->opcode == ISA_RANKED) free = 0;
    if (i->opcode == ISA_FOLD) free--;
    for (uint32_t d = free; d-- > 0;) {
        if (i->extent[d] > 1) continue;
        for (uint32_t o = 0; o < i->operand_count; o++) i->operand[o].stride[d] = 0;
        if (i->dim_count == 1) continue;
        isa_remove_dim(i, d);
        free--;
    }
    for (uint32_t d = free; d-- > 1;) {
        if (!is_one_walk(i, d - 1)) continue;
        i->extent[d] *= i->extent[d - 1];
        isa_remove_dim(i, d - 1);
    }
}

void isa_simplify(isa_program *program)
{
    uint32_t depth = 0, single = 0;         // bit n: open loop n has one iteration
    for (uint32_t n = 0; n < program->code.count; n++) {
        isa_instruction *i = program->code.items[n];
        if (i->opcode == ISA_LOOP) {
            single = (single & ~(1u << depth)) | (i->count == 1 ? 1u << depth : 0);
            depth++;
        }
        if (i->opcode == ISA_END_LOOP) depth--;
        for (uint32_t o = 0; o < i->operand_count; o++)
            for (uint32_t l = 0; l < depth; l++)
                if (single >> l & 1) i->operand[o].loop_stride[l] = 0;
        if (i->operand_count) simplify_tile(i);
    }
}
