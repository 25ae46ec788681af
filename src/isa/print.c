// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "isa/field_counts.h"

enum { INDENT = 4 };

static void print_indent(text *out, uint32_t depth)
{
    text_printf(out, "%*s", (int)(depth * INDENT), "");
}

static void print_string(text *out, const char *string)
{
    text_append(out, "\"");
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\')
            text_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            text_printf(out, "\\x%02x", c);
        else
            text_append_bytes(out, string, 1);
    }
    text_append(out, "\"");
}

static void print_list(text *out, const int64_t *values, uint32_t count)
{
    text_append(out, "[");
    for (uint32_t n = 0; n < count; n++)
        text_printf(out, n ? ", %lld" : "%lld", (long long)values[n]);
    text_append(out, "]");
}

static void print_operand(text *out, const isa_operand *operand, uint32_t dim_count)
{
    text_printf(out, "%s ", spyre_format_name(operand->format));
    if (operand->space == ISA_SPACE_LX)
        text_append(out, "lx");
    else if (operand->space == ISA_SPACE_NUMBER)
        text_append(out, "number");
    else
        text_printf(out, "arg%u", operand->arg);
    if (operand->space != ISA_SPACE_LX && operand->slot != ISA_NO_SLOT)
        text_printf(out, "+slot%u", operand->slot);
    text_printf(out, "%+lld ", (long long)operand->offset);
    print_list(out, operand->stride, dim_count);
    uint32_t loops = isa_loop_stride_count(operand);
    if (loops) {
        text_append(out, " loops ");
        print_list(out, operand->loop_stride, loops);
    }
    text_append(out, "\n");
}

static void print_instruction(text *out, const isa_instruction *i, uint32_t depth)
{
    const isa_info *info = isa_describe(i->opcode);
    isa_use uses = isa_describe(i->opcode)->uses;
    print_indent(out, depth);
    text_append(out, info->mnemonic);
    if (info->queue == ISA_QUEUE_ANY) text_printf(out, " %s", isa_queue_name(i->queue));
    if (uses == ISA_USES_TOKEN) text_printf(out, " %u", i->token);
    if (uses == ISA_USES_SLOT) text_printf(out, " slot%u", i->token);
    if (uses == ISA_USES_COUNT) text_printf(out, " %u", i->count);
    if (isa_uses_op(i->opcode)) text_printf(out, " %s", opfunc_describe(i->op)->name);
    uint32_t constants = isa_constant_count(i);
    for (uint32_t c = 0; c < constants; c++)
        text_printf(out, c ? ", %.9g" : " (%.9g", (double)i->constant[c]);
    if (constants) text_append(out, ")");
    if (isa_uses_rows(i->opcode))
        text_printf(out, " rows %lld stride %lld", (long long)i->row_count,
                    (long long)i->row_stride);
    if (i->row_lanes) text_printf(out, " lanes %u", i->row_lanes);
    if (*info->roles) {
        for (uint32_t d = 0; d < i->dim_count; d++)
            text_printf(out, d ? ", %u" : " [%u", i->extent[d]);
        text_append(out, "]");
    }
    text_append(out, "\n");
    for (uint32_t o = 0; o < i->operand_count; o++) {
        print_indent(out, depth + 1);
        print_operand(out, &i->operand[o], i->dim_count);
    }
}

static void print_kernel(text *out, const isa_kernel *kernel, uint32_t index)
{
    text_printf(out, "kernel %u ", index);
    print_string(out, kernel->name);
    if (*kernel->location) {
        text_append(out, " at ");
        print_string(out, kernel->location);
    }
    text_printf(out, " cores 0x%08x slots %u\n", kernel->active_cores, kernel->slot_count);
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        const int64_t *row = kernel->parameters + core * kernel->slot_count;
        bool zero = true;
        for (uint32_t s = 0; s < kernel->slot_count; s++) zero = zero && row[s] == 0;
        if (zero) continue;
        text_printf(out, "%*score %u:", INDENT, "", core);
        for (uint32_t s = 0; s < kernel->slot_count; s++)
            text_printf(out, " %lld", (long long)row[s]);
        text_append(out, "\n");
    }
}

void isa_print(const isa_program *program, text *out)
{
    text_append(out, "program\n");
    for (uint32_t a = 0; a < program->arg_count; a++)
        text_printf(out, "argument %u bytes %lld\n", a,
                    (long long)(program->arg_bytes ? program->arg_bytes[a] : 0));
    if (program->value_count) text_printf(out, "values %u\n", program->value_count);
    for (uint32_t c = 0; c < program->corrections.count; c++)
        text_printf(out, "correct %u value %u\n", program->corrections.items[c].number,
                    program->corrections.items[c].value);
    for (uint32_t k = 0; k < program->kernels.count; k++)
        print_kernel(out, &program->kernels.items[k], k);
    text_append(out, "code\n");
    uint32_t depth = 0;
    for (uint32_t n = 0; n < program->code.count; n++) {
        const isa_instruction *i = program->code.items[n];
        bool closes = i->opcode == ISA_END_LOOP || i->opcode == ISA_END_KERNEL;
        if (closes && depth) depth--;
        print_instruction(out, i, depth);
        if (i->opcode == ISA_LOOP || i->opcode == ISA_KERNEL) depth++;
    }
}
