// SPDX-License-Identifier: Apache-2.0
#include "card/row_fusion/fusible_ops.h"

#include "card/simd/lanes.h"

bool rows_all_dl16(const isa_instruction *i)
{
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (i->operand[o].format != SPYRE_FORMAT_SEN169_FP16) return false;
    return true;
}

bool rows_is_looked_up(const isa_instruction *i)
{
    const spyre_format formats[] = {SPYRE_FORMAT_SEN169_FP16};
    return opfunc_has_table(i->op) && i->operand_count == 2 && rows_all_dl16(i) &&
           !lanes_f32_suffices(i->op, formats[0], formats, 1) &&
           (opfunc_describe(i->op)->kind == OPFUNC_KIND_UNARY ||
            opfunc_dl16_table_of(i->op, i->constant));
}

opfunc rows_opfunc_of(const isa_instruction *i)
{
    bool copies = i->opcode == ISA_LOAD || opfunc_describe(i->op)->kind == OPFUNC_KIND_COPY;
    return copies ? OPFUNC_IDENTITY : i->op;
}

bool rows_is_native(const isa_instruction *i)
{
    const opfunc op = rows_opfunc_of(i);
    const uint32_t inputs = i->operand_count - 1u;
    spyre_format formats[ISA_MAX_OPERANDS];
    for (uint32_t o = 0; o <= inputs; o++) formats[o] = i->operand[o].format;
    return vector_applies(op, inputs) && lanes_f32_suffices(op, formats[0], formats + 1, inputs);
}

bool rows_streams(const isa_instruction *i)
{
    simd_format format;
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (!simd_reads(i->operand[o].format, &format)) return false;
    if (i->opcode == ISA_LOAD) return i->operand[0].format == i->operand[1].format;
    if (i->opcode != ISA_VECTOR) return false;
    if (i->op == OPFUNC_LAYERNORMNORM || rows_is_looked_up(i)) return true;
    return rows_is_native(i) || vector_has_formula(i->op, i->operand_count - 1u);
}
