// SPDX-License-Identifier: Apache-2.0
//
// What stands behind the mnemonic of an operation.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ktir/print/print.h"
#include "tensor/numeric.h"

static void print_real(const printer *p, ktir_element element, int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value)) {
        char digits[40];
        snprintf(digits, sizeof digits, "%.17g", value);
        const char *e = strchr(digits, 'e');
        if (strchr(digits, '.') || (!e && strlen(digits) > 30)) text_append(p->out, digits);
        else if (!e) text_printf(p->out, "%s.0", digits);
        else text_printf(p->out, "%.*s.0%s", (int)(e - digits), digits, e);
    } else if (element == KTIR_F32) {
        text_printf(p->out, "0x%08X", (unsigned)float_bits((float)value));
    } else if (element == KTIR_BF16) {
        text_printf(p->out, "0x%04X", (unsigned)bf16_from_float((float)value));
    } else {
        text_printf(p->out, "0x%04X", (unsigned)fp16_from_float((float)value));
    }
}

static void print_constant(const printer *p, const ktir_op *op)
{
    const ktir_type *type = ktir_result_type(p->m, op);
    int64_t value = ktir_number(p->m, op, KTIR_KEY_VALUE, 0);
    bool dense = type->kind == KTIR_TENSOR;
    text_append(p->out, dense ? " dense<" : " ");
    if (ktir_element_describe(type->element)->is_float) print_real(p, type->element, value);
    else if (type->element == KTIR_I1) text_append(p->out, value ? "true" : "false");
    else text_printf(p->out, "%lld", (long long)value);
    if (dense) text_append(p->out, ">");
    if (type->kind != KTIR_SCALAR || type->element != KTIR_I1) print_as(p, op, " : @r");
}

static void print_elementwise(const printer *p, const ktir_op *op)
{
    text_append(p->out, " ");
    if (ktir_op_describe(op->opcode)->form == KTIR_FORM_COMPARE)
        text_printf(p->out, "%s, ",
                    ktir_predicates[ktir_number(p->m, op, KTIR_KEY_PREDICATE, 0)].name);
    const bool selects = op->opcode == KTIR_OP_SELECT;
    const bool two = selects && ktir_operand_type(p->m, op, 0)->kind == KTIR_TENSOR;
    print_as(p, op, op->opcode == KTIR_OP_CLAMPF ? "$0 to [$1+] : @0"
                    : op->opcode == KTIR_OP_FPOWI ? "$0+ : @0+"
                    : two                         ? "$0+ : @0, @1"
                    : selects                     ? "$0+ : @1"
                                                  : "$0+ : @0");
}

// --- linalg

static void print_ins_outs(const printer *p, const ktir_op *op)
{
    uint32_t ins = (uint32_t)ktir_number(p->m, op, KTIR_KEY_INS, 0);
    if (ins) {
        text_append(p->out, " ins(");
        print_operands(p, op, 0, ins);
        text_append(p->out, " : ");
        print_types(p, op, 0, ins);
        text_append(p->out, ")");
    }
    text_append(p->out, " outs(");
    print_operands(p, op, ins, op->operand_count);
    text_append(p->out, " : ");
    print_types(p, op, ins, op->operand_count);
    text_append(p->out, ")");
}

static void print_combining_region(const printer *p, const ktir_op *op)
{
    const ktir_region *region = ktir_op_region(p->m, op, 0);
    text_append(p->out, " (");
    print_arguments(p, region);
    text_append(p->out, ")");
    print_region(p, op, 0, false);
}

static void print_linalg(const printer *p, const ktir_op *op, ktir_form form)
{
    const ktir_attribute *combiner = ktir_find(p->m, op, KTIR_KEY_COMBINER);
    const ktir_attribute *dims = ktir_find(p->m, op, KTIR_KEY_DIMENSIONS);
    if (combiner)
        text_printf(p->out, " { %s }",
                    ktir_op_describe((ktir_opcode)combiner->number)->mnemonic);
    if (form == KTIR_FORM_GENERIC) print_dictionary(p, op);
    print_ins_outs(p, op);
    if (dims) {
        text_append(p->out, form == KTIR_FORM_TRANSPOSE ? " permutation = " : " dimensions = ");
        print_list(p, dims->list, dims->count);
    }
    if (op->region_count && form == KTIR_FORM_GENERIC) print_region(p, op, 0, true);
    else if (op->region_count) print_combining_region(p, op);
    text_append(p->out, " -> ");
    print_type(p, ktir_operand_type(p->m, op, op->operand_count - 1));
}

// --- tensor

static void print_slice(const printer *p, const ktir_op *op)
{
    bool inserts = op->opcode == KTIR_OP_INSERT_SLICE;
    uint32_t next = inserts ? 2 : 1;
    print_as(p, op, inserts ? " $0 into $1" : " $0");
    print_mixed_list(p, op, KTIR_KEY_OFFSETS, &next);
    text_append(p->out, " ");
    print_mixed_list(p, op, KTIR_KEY_SIZES, &next);
    text_append(p->out, " ");
    print_mixed_list(p, op, KTIR_KEY_STRIDES, &next);
    print_as(p, op, inserts ? " : @0 into @r" : " : @0 to @r");
}

static void print_reshape(const printer *p, const ktir_op *op)
{
    const ktir_attribute *groups = ktir_find(p->m, op, KTIR_KEY_GROUPS);
    uint32_t next = 1;
    int64_t begin = 0;
    print_as(p, op, " $0 [");
    for (uint32_t g = 0; g < groups->count; g++) {
        if (g) text_append(p->out, ", ");
        print_list(p, groups->list + begin, (uint64_t)(groups->ends[g] - begin));
        begin = groups->ends[g];
    }
    text_append(p->out, "]");
    if (ktir_find(p->m, op, KTIR_KEY_SHAPE)) {
        text_append(p->out, " output_shape ");
        print_mixed_list(p, op, KTIR_KEY_SHAPE, &next);
    }
    print_as(p, op, " : @0 into @r");
}

static void print_affine(const printer *p, const ktir_op *op)
{
    const ktir_map *map = ktir_find(p->m, op, KTIR_KEY_SUBSCRIPTS)->map;
    text_append(p->out, " ");
    ktir_map_print(map, true, p->out);
    text_append(p->out, "(");
    print_operands(p, op, 0, map->dims);
    text_append(p->out, ")");
    if (!map->symbols) return;
    text_append(p->out, "[");
    print_operands(p, op, map->dims, op->operand_count);
    text_append(p->out, "]");
}

static void print_tensor(const printer *p, const ktir_op *op, ktir_form form)
{
    switch ((int)form) {
    case KTIR_FORM_RESHAPE: print_reshape(p, op); break;
    case KTIR_FORM_SLICE: print_slice(p, op); break;
    case KTIR_FORM_AFFINE: print_affine(p, op); break;
    case KTIR_FORM_TENSOR_CAST: print_as(p, op, " $0 : @0 to @r"); break;
    case KTIR_FORM_FROM_ELEMENTS: print_as(p, op, " $0+ : @r"); break;
    case KTIR_FORM_DIM: print_as(p, op, " $0+ : @0"); break;
    case KTIR_FORM_EMPTY: print_as(p, op, "($0+) : @r"); break;
    case KTIR_FORM_EXTRACT: print_as(p, op, " $0[$1+] : @0"); break;
    default: print_as(p, op, op->operand_count > 1 ? " $0[$1+] : @r" : " $0 : @r"); break;
    }
}

// --- ktdp

static void print_subscript(const printer *p, const ktir_op *op, const ktir_expr *e)
{
    const ktir_attribute *variables = ktir_find(p->m, op, KTIR_KEY_VARIABLES);
    const ktir_map *map = ktir_find(p->m, op, KTIR_KEY_SUBSCRIPTS)->map;
    uint32_t own = variables ? variables->count : 0;
    const char *words[KTIR_MOST_NAMES];
    for (uint32_t n = 0; n < map->dims; n++)
        words[n] = n < own ? variables->names[n]
                           : p->m->values.items[ktir_operand(p->m, op, 1 + n - own)].name;
    ktir_expr_print(e, words, p->out);
}

static void print_access_tile(const printer *p, const ktir_op *op)
{
    const ktir_map *map = ktir_find(p->m, op, KTIR_KEY_SUBSCRIPTS)->map;
    print_as(p, op, " $0[");
    for (uint32_t r = 0; r < map->count; r++) {
        if (r) text_append(p->out, ", ");
        print_subscript(p, op, map->results[r]);
    }
    text_append(p->out, "]");
    print_dictionary(p, op);
    print_as(p, op, " : @0 -> @r");
}

static void print_indirect_tile(const printer *p, const ktir_op *op)
{
    const ktir_map *map = ktir_find(p->m, op, KTIR_KEY_SUBSCRIPTS)->map;
    const ktir_attribute *variables = ktir_find(p->m, op, KTIR_KEY_VARIABLES);
    const ktir_attribute *views = ktir_find(p->m, op, KTIR_KEY_VIEWS);
    uint32_t first_view = 1 + map->dims - variables->count, r = 0;
    text_append(p->out, " intermediate_variables(");
    for (uint32_t v = 0; v < variables->count; v++)
        text_printf(p->out, "%s%s", v ? ", " : "", variables->names[v]);
    print_as(p, op, ") $0[");
    for (uint32_t d = 0; d < views->count; d++) {
        bool indirect = views->list[d] >= 0;
        uint32_t view = first_view + (uint32_t)views->list[d];
        uint32_t rank = indirect ? ktir_operand_type(p->m, op, view)->rank : 1;
        text_append(p->out, d ? ", " : "");
        text_append(p->out, indirect ? "ind(" : "(");
        if (indirect) {
            print_operand(p, op, view);
            text_append(p->out, "[");
        }
        for (uint32_t n = 0; n < rank && r < map->count; n++, r++) {
            if (n) text_append(p->out, ", ");
            print_subscript(p, op, map->results[r]);
        }
        text_append(p->out, indirect ? "])" : ")");
    }
    text_append(p->out, "]");
    print_dictionary(p, op);
    print_as(p, op, op->operand_count > first_view ? " : @0, " : " : @0");
    print_types(p, op, first_view, op->operand_count);
    print_as(p, op, " -> @r");
}

static void print_memory_view(const printer *p, const ktir_op *op)
{
    uint32_t next = 1;
    print_as(p, op, " $0, sizes: ");
    print_mixed_list(p, op, KTIR_KEY_SIZES, &next);
    text_append(p->out, ", strides: ");
    print_mixed_list(p, op, KTIR_KEY_STRIDES, &next);
    print_dictionary(p, op);
    print_as(p, op, " : @r");
}

static void print_between_tiles(const printer *p, const ktir_op *op)
{
    const char *before = " ";
    bool reduces = op->opcode == KTIR_OP_TILE_REDUCE;
    if (reduces) print_as(p, op, "($0)");
    for (uint32_t a = 0; a < op->attribute_count; a++) {
        text_append(p->out, before);
        print_attribute(p, &p->m->attributes.items[op->first_attribute + a]);
        before = ", ";
    }
    if (reduces && op->operand_count > 1) {
        text_append(p->out, before);
        print_as(p, op, "identity($1 : @1)");
    }
    print_as(p, op, reduces ? " : @0 -> @r" : " -> @r");
    print_region(p, op, 0, true);
}

static void print_ktdp(const printer *p, const ktir_op *op, ktir_form form)
{
    if (form == KTIR_FORM_TILE_ID) {
        text_append(p->out, " : ");
        for (uint32_t r = 0; r < op->result_count; r++)
            text_append(p->out, r ? ", index" : "index");
    } else if (form == KTIR_FORM_MEMORY_VIEW) {
        print_memory_view(p, op);
    } else if (form == KTIR_FORM_ACCESS_TILE) {
        print_access_tile(p, op);
    } else if (form == KTIR_FORM_INDIRECT_TILE) {
        print_indirect_tile(p, op);
    } else if (form == KTIR_FORM_PRODUCE || form == KTIR_FORM_TILE_REDUCE) {
        print_between_tiles(p, op);
    } else {
        print_as(p, op, form == KTIR_FORM_DISTRIBUTED_VIEW ? " ($0+ : @0+) : @r"
                        : form == KTIR_FORM_LOAD           ? " $0 : @0 -> @r"
                                                           : " $0+ : @0+");
    }
}

void print_operation(const printer *p, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    const bool nests = form == KTIR_FORM_PARALLEL || form == KTIR_FORM_FORALL;
    if (form == KTIR_FORM_CONSTANT) print_constant(p, op);
    else if (form < KTIR_FORM_CAST) print_elementwise(p, op);
    else if (form == KTIR_FORM_CAST) print_as(p, op, " $0 : @0 to @r");
    else if (form == KTIR_FORM_LINALG_INDEX)
        text_printf(p->out, " %lld : index",
                    (long long)ktir_number(p->m, op, KTIR_KEY_VALUE, 0));
    else if (form < KTIR_FORM_LINALG_INDEX) print_linalg(p, op, form);
    else if (form >= KTIR_FORM_EMPTY && form <= KTIR_FORM_SLICE) print_tensor(p, op, form);
    else if (form <= KTIR_FORM_SCF_REDUCE || nests) print_scf(p, op, form);
    else print_ktdp(p, op, form);
}
