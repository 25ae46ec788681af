// SPDX-License-Identifier: Apache-2.0
//
// What stands behind the mnemonic of an operation of scf.
#include "ktir/print/print.h"

static void print_result_types(const printer *p, const ktir_op *op)
{
    text_append(p->out, " -> (");
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (r) text_append(p->out, ", ");
        print_type(p, p->m->values.items[op->first_result + r].type);
    }
    text_append(p->out, ")");
}

static const char *argument_name(const printer *p, const ktir_op *op, uint32_t n)
{
    return p->m->values.items[ktir_op_region(p->m, op, 0)->first_argument + n].name;
}

static void print_for(const printer *p, const ktir_op *op)
{
    text_printf(p->out, " %s = ", argument_name(p, op, 0));
    print_as(p, op, "$0 to $1 step $2");
    if (op->operand_count > 3) {
        text_append(p->out, " iter_args(");
        for (uint32_t n = 3; n < op->operand_count; n++) {
            text_printf(p->out, "%s%s = ", n > 3 ? ", " : "", argument_name(p, op, n - 2));
            print_operand(p, op, n);
        }
        text_append(p->out, ")");
        print_result_types(p, op);
    }
    if (ktir_operand_type(p->m, op, 0)->element != KTIR_INDEX) print_as(p, op, " : @0");
    print_region(p, op, 0, false);
}

static void print_while(const printer *p, const ktir_op *op)
{
    for (uint32_t n = 0; n < op->operand_count; n++) {
        text_printf(p->out, "%s%s = ", n ? ", " : " (", argument_name(p, op, n));
        print_operand(p, op, n);
    }
    print_as(p, op, op->operand_count ? ") : (@0+)" : " : ()");
    print_result_types(p, op);
    print_region(p, op, 0, false);
    text_append(p->out, " do");
    print_region(p, op, 1, true);
}

static void print_bounds(const printer *p, const ktir_op *op, uint32_t first, uint32_t count)
{
    text_append(p->out, "(");
    print_operands(p, op, first, first + count);
    text_append(p->out, ")");
}

static void print_nest(const printer *p, const ktir_op *op, ktir_form form)
{
    uint32_t dims = ktir_op_region(p->m, op, 0)->argument_count;
    text_append(p->out, " (");
    for (uint32_t d = 0; d < dims; d++)
        text_printf(p->out, "%s%s", d ? ", " : "", argument_name(p, op, d));
    text_append(p->out, form == KTIR_FORM_FORALL ? ") in " : ") = ");
    print_bounds(p, op, 0, dims);
    if (form == KTIR_FORM_PARALLEL) {
        text_append(p->out, " to ");
        print_bounds(p, op, dims, dims);
        text_append(p->out, " step ");
        print_bounds(p, op, 2 * dims, dims);
        if (op->operand_count > 3 * dims) {
            text_append(p->out, " init ");
            print_bounds(p, op, 3 * dims, 1);
            print_result_types(p, op);
        }
    }
    print_region(p, op, 0, false);
}

void print_scf(const printer *p, const ktir_op *op, ktir_form form)
{
    const bool condition = op->opcode == KTIR_OP_CONDITION;
    if (condition) print_as(p, op, "($0)");
    if (form == KTIR_FORM_WHILE) {
        print_while(p, op);
    } else if (form == KTIR_FORM_PARALLEL || form == KTIR_FORM_FORALL) {
        print_nest(p, op, form);
    } else if (form == KTIR_FORM_FOR) {
        print_for(p, op);
    } else if (form == KTIR_FORM_IF) {
        print_as(p, op, " $0");
        if (op->result_count) print_result_types(p, op);
        print_region(p, op, 0, false);
        if (op->region_count > 1) {
            text_append(p->out, " else");
            print_region(p, op, 1, false);
        }
    } else if (form == KTIR_FORM_SCF_REDUCE) {
        if (!op->operand_count) return;
        print_as(p, op, "($0 : @0)");
        print_region(p, op, 0, true);
    } else if (op->operand_count > condition) {
        print_as(p, op, condition ? " $1+ : @1+" : " $0+ : @0+");
    }
}
