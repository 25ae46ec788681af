// SPDX-License-Identifier: Apache-2.0
//
// Rules of arith and math.
#include "ktir/verify/verify.h"

static bool is_number(const ktir_type *type)
{
    return type->kind == KTIR_SCALAR || type->kind == KTIR_TENSOR;
}

static bool is_float(const ktir_type *type)
{
    return ktir_element_describe(type->element)->is_float;
}

static spyre_status verify_class(const ktir_module *m, const ktir_op *op, uint32_t n, bool floats)
{
    const ktir_type *type = ktir_operand_type(m, op, n);
    if (!is_number(type)) return verify_bad_operand(m, op, n, "a number or a tensor is wanted");
    if (is_float(type) == floats) return NULL;
    return verify_bad_operand(m, op, n, floats ? "floating-point elements are wanted"
                                               : "integers are wanted");
}

static bool narrows(ktir_opcode opcode)
{
    return opcode == KTIR_OP_TRUNCF || opcode == KTIR_OP_TRUNCI;
}

static spyre_status verify_cast(const ktir_module *m, const ktir_op *op)
{
    static const struct {
        ktir_opcode opcode;
        bool from_float, to_float;
    } casts[] = {
        {KTIR_OP_EXTF, true, true},          {KTIR_OP_TRUNCF, true, true},
        {KTIR_OP_EXTSI, false, false},       {KTIR_OP_EXTUI, false, false},
        {KTIR_OP_TRUNCI, false, false},      {KTIR_OP_SITOFP, false, true},
        {KTIR_OP_UITOFP, false, true},       {KTIR_OP_FPTOSI, true, false},
        {KTIR_OP_FPTOUI, true, false},       {KTIR_OP_INDEX_CAST, false, false},
        {KTIR_OP_INDEX_CASTUI, false, false},
    };
    const ktir_type *from = ktir_operand_type(m, op, 0), *to = ktir_result_type(m, op);
    if (!is_number(from)) return verify_bad_operand(m, op, 0, "a number or a tensor is wanted");
    if (from->kind != to->kind || !ktir_same_sizes(from, to))
        return verify_bad_result(m, op, "a cast keeps the shape");
    uint32_t from_bytes = ktir_element_describe(from->element)->bytes;
    uint32_t to_bytes = ktir_element_describe(to->element)->bytes;
    if (op->opcode == KTIR_OP_BITCAST)
        return from_bytes == to_bytes ? NULL : verify_bad_result(m, op, "a bitcast keeps the bits");
    for (size_t c = 0; c < sizeof casts / sizeof *casts; c++) {
        if (casts[c].opcode != op->opcode) continue;
        TRY(verify_class(m, op, 0, casts[c].from_float));
        if (is_float(to) != casts[c].to_float)
            return verify_bad_result(m, op, "the cast goes to another class of types");
    }
    bool widens = op->opcode == KTIR_OP_EXTF || op->opcode == KTIR_OP_EXTSI ||
                  op->opcode == KTIR_OP_EXTUI;
    bool boolean = from->element == KTIR_I1 && to->element != KTIR_I1;
    if (widens && to_bytes <= from_bytes && !boolean)
        return verify_bad_result(m, op, "an extension is to a wider type");
    if (narrows(op->opcode) && to_bytes >= from_bytes && to->element != KTIR_I1)
        return verify_bad_result(m, op, "a truncation is to a narrower type");
    return NULL;
}

static spyre_status verify_select(const ktir_module *m, const ktir_op *op)
{
    const ktir_type *condition = ktir_operand_type(m, op, 0), *type = ktir_operand_type(m, op, 1);
    bool shaped = condition->kind == KTIR_TENSOR;
    if (!is_number(type)) return verify_bad_operand(m, op, 1, "a number or a tensor is wanted");
    if (condition->element != KTIR_I1 || !is_number(condition) ||
        (shaped && (type->kind != KTIR_TENSOR || !ktir_same_sizes(condition, type))))
        return verify_bad_operand(m, op, 0, "the condition is an i1, or one for each element");
    return NULL;
}

spyre_status verify_arith(const ktir_module *m, const ktir_op *op)
{
    const ktir_op_info *info = ktir_op_describe(op->opcode);
    if (info->form == KTIR_FORM_CONSTANT) {
        const ktir_type *type = ktir_result_type(m, op);
        for (uint32_t d = 0; d < type->rank; d++)
            if (type->size[d] == KTIR_DYNAMIC)
                return verify_bad_result(m, op, "a constant has a known shape");
        return NULL;
    }
    if (info->form == KTIR_FORM_CAST) return verify_cast(m, op);
    if (info->form == KTIR_FORM_SELECT) return verify_select(m, op);
    if (info->form == KTIR_FORM_FPOWI) {
        TRY(verify_class(m, op, 1, false));
        if (ktir_operand_type(m, op, 0)->kind != ktir_operand_type(m, op, 1)->kind ||
            !ktir_same_sizes(ktir_operand_type(m, op, 0), ktir_operand_type(m, op, 1)))
            return verify_bad_operand(m, op, 1, "a power for each element is wanted");
    }
    bool floats = info->form == KTIR_FORM_COMPARE ? op->opcode == KTIR_OP_CMPF
                                                  : info->integer == KTIR_INTEGER_NONE;
    return verify_class(m, op, 0, floats);
}
