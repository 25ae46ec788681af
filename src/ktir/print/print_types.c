// SPDX-License-Identifier: Apache-2.0
//
// Pieces of a module's text: types, operands, attributes, regions.
#include "ktir/print/print.h"

void print_type(const printer *p, const ktir_type *type)
{
    ktir_type_print(type, p->out);
}

static void print_sizes(const ktir_type *type, text *out)
{
    for (uint32_t d = 0; d < type->rank; d++) {
        if (type->size[d] == KTIR_DYNAMIC) text_append(out, "?x");
        else text_printf(out, "%lldx", (long long)type->size[d]);
    }
    text_append(out, ktir_element_describe(type->element)->name);
}

static void print_layout_number(int64_t number, text *out)
{
    if (number == KTIR_DYNAMIC) text_append(out, "?");
    else text_printf(out, "%lld", (long long)number);
}

void ktir_type_print(const ktir_type *type, text *out)
{
    static const char *const names[] = {"", "tensor<", "memref<", "!ktdp.access_tile<",
                                        "!ktdp.tile_future<tensor<"};
    text_append(out, names[type->kind]);
    print_sizes(type, out);
    if (type->kind == KTIR_SCALAR) return;
    if (type->kind == KTIR_FUTURE) {
        text_append(out, ">, groups = ");
        ktir_set_print(type->groups, true, out);
    }
    if (type->layout) {
        text_append(out, ", strided<[");
        for (uint32_t d = 0; d < type->rank; d++) {
            if (d) text_append(out, ", ");
            print_layout_number(type->layout[d], out);
        }
        text_append(out, "], offset: ");
        print_layout_number(type->layout[type->rank], out);
        text_append(out, ">");
    }
    text_append(out, ">");
}

void print_operand(const printer *p, const ktir_op *op, uint32_t n)
{
    text_append(p->out, p->m->values.items[ktir_operand(p->m, op, n)].name);
}

void print_operands(const printer *p, const ktir_op *op, uint32_t first, uint32_t end)
{
    for (uint32_t n = first; n < end; n++) {
        if (n > first) text_append(p->out, ", ");
        print_operand(p, op, n);
    }
}

void print_types(const printer *p, const ktir_op *op, uint32_t first, uint32_t end)
{
    for (uint32_t n = first; n < end; n++) {
        if (n > first) text_append(p->out, ", ");
        print_type(p, ktir_operand_type(p->m, op, n));
    }
}

void print_as(const printer *p, const ktir_op *op, const char *form)
{
    for (; *form; form++) {
        if (*form != '$' && *form != '@') {
            text_append_bytes(p->out, form, 1);
            continue;
        }
        const char kind = *form++;
        const uint32_t first = (uint32_t)(*form - '0');
        const bool all = *form != 'r' && form[1] == '+';
        const uint32_t end = all ? op->operand_count : first + 1;
        if (*form == 'r') print_type(p, ktir_result_type(p->m, op));
        else if (kind == '$') print_operands(p, op, first, end);
        else print_types(p, op, first, end);
        form += all;
    }
}

void print_list(const printer *p, const int64_t *list, uint64_t count)
{
    text_append(p->out, "[");
    for (uint64_t n = 0; n < count; n++)
        text_printf(p->out, "%s%lld", n ? ", " : "", (long long)list[n]);
    text_append(p->out, "]");
}

void print_mixed_list(const printer *p, const ktir_op *op, ktir_key key, uint32_t *next)
{
    const ktir_attribute *list = ktir_find(p->m, op, key);
    text_append(p->out, "[");
    for (uint32_t n = 0; n < list->count; n++) {
        if (n) text_append(p->out, ", ");
        if (list->list[n] == KTIR_OPERAND) print_operand(p, op, (*next)++);
        else text_printf(p->out, "%lld", (long long)list->list[n]);
    }
    text_append(p->out, "]");
}

static void print_space(const printer *p, int64_t space)
{
    text_append(p->out, "#ktdp.memory_space<");
    text_append(p->out, space == KTIR_HBM ? "global" : "ct_local");
    if (space >= KTIR_LX_OF_CORE)
        text_printf(p->out, ", ct_id = %lld", (long long)(space - KTIR_LX_OF_CORE));
    text_append(p->out, ">");
}

void print_attribute(const printer *p, const ktir_attribute *a)
{
    text *out = p->out;
    text_printf(out, "%s = ", ktir_key_describe(a->key)->name);
    if (a->map) ktir_map_print(a->map, true, out);
    else if (a->set) ktir_set_print(a->set, true, out);
    else if (a->key == KTIR_KEY_MEMORY_SPACE) print_space(p, a->number);
    else if (a->key == KTIR_KEY_DIMENSIONS) print_list(p, a->list, a->count);
    else {
        text_append(out, "[");
        for (uint32_t n = 0; n < a->count; n++) {
            if (n) text_append(out, ", ");
            if (a->maps) ktir_map_print(a->maps[n], true, out);
            else text_append(out, a->list[n] ? "\"reduction\"" : "\"parallel\"");
        }
        text_append(out, "]");
    }
}

void print_dictionary(const printer *p, const ktir_op *op)
{
    const char *before = " {";
    for (uint32_t a = 0; a < op->attribute_count; a++) {
        const ktir_attribute *attribute = &p->m->attributes.items[op->first_attribute + a];
        if (!*ktir_key_describe(attribute->key)->name) continue;
        text_append(p->out, before);
        print_attribute(p, attribute);
        before = ", ";
    }
    if (before[0] == ',') text_append(p->out, "}");
}

// --- Regions

void print_indent(const printer *p)
{
    text_printf(p->out, "%*s", (int)p->indent * 2, "");
}

void print_body(const printer *p, const ktir_region *region)
{
    printer inner = *p;
    inner.indent++;
    for (uint32_t n = region->begin; n < region->end; n = p->m->ops.items[n].end)
        inner.op(&inner, &p->m->ops.items[n]);
    print_indent(p);
    text_append(p->out, "}");
}

void print_arguments(const printer *p, const ktir_region *region)
{
    for (uint32_t a = 0; a < region->argument_count; a++) {
        const ktir_value *value = &p->m->values.items[region->first_argument + a];
        text_printf(p->out, "%s%s: ", a ? ", " : "", value->name);
        print_type(p, value->type);
    }
}

void print_region(const printer *p, const ktir_op *op, uint32_t number, bool labelled)
{
    const ktir_region *region = ktir_op_region(p->m, op, number);
    text_append(p->out, " {\n");
    if (labelled && region->argument_count) {
        print_indent(p);
        text_append(p->out, "^bb0(");
        print_arguments(p, region);
        text_append(p->out, "):\n");
    }
    print_body(p, region);
}
