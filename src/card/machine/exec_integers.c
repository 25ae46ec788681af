// SPDX-License-Identifier: Apache-2.0
#include "card/machine/exec_integers.h"

#include <string.h>

#include "tensor/format.h"

static bool op_wraps(opfunc op)
{
    return op == OPFUNC_ADD || op == OPFUNC_SUB || op == OPFUNC_MUL || op == OPFUNC_NEG ||
           op == OPFUNC_ABS || op == OPFUNC_IDENTITY || op == OPFUNC_SHIFTLEFT;
}

bool exec_integer_wraps(const isa_instruction *i)
{
    if (i->opcode != ISA_VECTOR || !op_wraps(i->op)) return false;
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (format_class_of(i->operand[o].format) != FORMAT_INTEGER) return false;
    return true;
}

uint64_t exec_integer_load(const uint8_t *element, spyre_format format)
{
    if (format == SPYRE_FORMAT_IEEE_INT32) {
        int32_t value;
        memcpy(&value, element, sizeof value);
        return (uint64_t)(int64_t)value;
    }
    if (format == SPYRE_FORMAT_IEEE_INT64) {
        uint64_t value;
        memcpy(&value, element, sizeof value);
        return value;
    }
    return (uint64_t)(int64_t)element_load(element, format);
}

void exec_integer_store(uint8_t *element, spyre_format format, uint64_t value)
{
    uint32_t bytes = spyre_format_bytes(format);
    for (uint32_t n = 0; n < bytes; n++) element[n] = (uint8_t)(value >> 8 * n);
}

uint64_t exec_integer_apply(opfunc op, uint64_t a, uint64_t b)
{
    if (op == OPFUNC_ADD) return a + b;
    if (op == OPFUNC_SUB) return a - b;
    if (op == OPFUNC_MUL) return a * b;
    if (op == OPFUNC_NEG) return 0 - a;
    if (op == OPFUNC_SHIFTLEFT) return b < 64 ? a << b : 0;
    if (op == OPFUNC_ABS) return (int64_t)a < 0 ? 0 - a : a;
    return a;
}
