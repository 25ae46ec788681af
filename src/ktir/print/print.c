// SPDX-License-Identifier: Apache-2.0
//
// A module as text: one operation a line, aliases first, names as they were.
#include <string.h>

#include "ktir/print/print.h"

// %a, %b or %pid:2, when the names are numbered ones.
static void print_results(const printer *p, const ktir_op *op)
{
    for (uint32_t n = 0; n < op->result_count; n++) {
        const char *name = p->m->values.items[op->first_result + n].name;
        const char *number = strchr(name, '#');
        if (n && (!number || strcmp(number, "#0") == 0)) text_append(p->out, ", ");
        if (!number) {
            text_append(p->out, name);
            continue;
        }
        uint32_t last = n;
        while (last + 1 < op->result_count) {
            const char *next = p->m->values.items[op->first_result + last + 1].name;
            const char *sign = strchr(next, '#');
            if (!sign || strcmp(sign, "#0") == 0) break;
            last++;
        }
        text_printf(p->out, "%.*s:%u", (int)(number - name), name, last - n + 1);
        n = last;
    }
    if (op->result_count) text_append(p->out, " = ");
}

static void print_op(const printer *p, const ktir_op *op)
{
    print_indent(p);
    if (!op->in_place) print_results(p, op);
    text_append(p->out, op->opcode == KTIR_OP_RETURN ? "return"
                                                     : ktir_op_describe(op->opcode)->mnemonic);
    print_operation(p, op);
    text_append(p->out, "\n");
}

static void print_function(const printer *p, const ktir_function *f)
{
    print_indent(p);
    text_printf(p->out, "func.func @%s(", f->name);
    print_arguments(p, &f->body);
    text_append(p->out, ")");
    if (f->grid_rank) {
        text_append(p->out, " attributes {grid = ");
        print_list(p, f->grid, f->grid_rank);
        text_append(p->out, "}");
    }
    text_append(p->out, " {\n");
    print_body(p, &f->body);
    text_append(p->out, "\n");
}

void ktir_print(const ktir_module *m, text *out)
{
    uint32_t map = 0, set = 0;
    for (uint32_t a = 0; a < m->aliases.count; a++) {
        const char *name = m->aliases.items[a];
        bool is_set = set < m->sets.count && m->sets.items[set]->alias == name;
        text_printf(out, "%s = ", name);
        if (is_set) ktir_set_print(m->sets.items[set++], false, out);
        else ktir_map_print(m->maps.items[map++], false, out);
        text_append(out, "\n");
    }
    text_append(out, "module {\n");
    printer p = {.m = m, .out = out, .indent = 1, .op = print_op};
    for (uint32_t f = 0; f < m->functions.count; f++) print_function(&p, &m->functions.items[f]);
    text_append(out, "}\n");
}
