// SPDX-License-Identifier: Apache-2.0
//
// Operations of the tensor dialect, memref.subview, and affine maps of numbers.
#include "ktir/parse/parse.h"

static spyre_status parse_colon_type(statement *s, const ktir_type **out_type)
{
    TRY(lexer_expect(&s->p->l, ":"));
    return parse_type(s->p, out_type);
}

static spyre_status parse_empty(statement *s)
{
    const ktir_type *type;
    TRY(lexer_expect(&s->p->l, "("));
    TRY(parse_operands_to(s, ")"));
    TRY(parse_colon_type(s, &type));
    return parse_result(s, type);
}

// %s : tensor<4xf16>, or %s[%n] : tensor<?xf16>
static spyre_status parse_splat(statement *s)
{
    const ktir_type *type;
    bool dynamic;
    TRY(parse_operand(s, NULL));
    TRY(lexer_skip(&s->p->l, "[", &dynamic));
    if (dynamic) TRY(parse_operands_to(s, "]"));
    TRY(parse_colon_type(s, &type));
    return parse_result(s, type);
}

static spyre_status parse_extract(statement *s)
{
    const ktir_type *type;
    TRY(parse_operand(s, &type));
    TRY(lexer_expect(&s->p->l, "["));
    TRY(parse_operands_to(s, "]"));
    TRY(lexer_expect(&s->p->l, ":"));
    TRY(parse_expect_type(s, 0));
    return parse_result(s, parse_scalar_type(s->p, type->element));
}

// [[0, 1], [2]]
static spyre_status parse_groups(statement *s)
{
    parser *p = s->p;
    parse_numbers all = {0}, ends = {0}, one;
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        TRY(parse_list(p, &one));
        for (uint32_t n = 0; n < one.count; n++) TRY(VEC_PUSH(p->memory, &all, one.items[n]));
        TRY(VEC_PUSH(p->memory, &ends, (int64_t)all.count));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(parse_add(s, (ktir_attribute){.key = KTIR_KEY_GROUPS, .count = ends.count,
                                      .list = all.items, .ends = ends.items}));
    return lexer_next(&p->l);
}

static spyre_status parse_reshape(statement *s)
{
    const ktir_type *type;
    bool shaped;
    TRY(parse_operand(s, NULL));
    TRY(parse_groups(s));
    TRY(lexer_skip(&s->p->l, "output_shape", &shaped));
    if (shaped) TRY(parse_mixed_list(s, KTIR_KEY_SHAPE));
    TRY(lexer_expect(&s->p->l, ":"));
    TRY(parse_expect_type(s, 0));
    TRY(lexer_expect(&s->p->l, "into"));
    TRY(parse_type(s->p, &type));
    return parse_result(s, type);
}

// %t[0, %i] [1, 64] [1, 1] : T to T, or %s into %t[..] [..] [..] : T into T
static spyre_status parse_slice(statement *s)
{
    bool inserts = s->op.opcode == KTIR_OP_INSERT_SLICE;
    const ktir_type *type;
    TRY(parse_operand(s, NULL));
    if (inserts) {
        TRY(lexer_expect(&s->p->l, "into"));
        TRY(parse_operand(s, NULL));
    }
    TRY(parse_mixed_list(s, KTIR_KEY_OFFSETS));
    TRY(parse_mixed_list(s, KTIR_KEY_SIZES));
    TRY(parse_mixed_list(s, KTIR_KEY_STRIDES));
    TRY(lexer_expect(&s->p->l, ":"));
    TRY(parse_expect_type(s, 0));
    TRY(lexer_expect(&s->p->l, inserts ? "into" : "to"));
    if (inserts) {
        TRY(parse_expect_type(s, 1));
        return parse_result(s, parse_type_of(s, 1));
    }
    TRY(parse_type(s->p, &type));
    return parse_result(s, type);
}

// %a, %b : tensor<2xf32>
static spyre_status parse_from_elements(statement *s)
{
    const ktir_type *type;
    TRY(parse_all_operands(s));
    TRY(parse_colon_type(s, &type));
    return parse_result(s, type);
}

// %t, %c0 : tensor<?x4xf32>
static spyre_status parse_dim(statement *s)
{
    TRY(parse_operands(s, 2));
    TRY(lexer_expect(&s->p->l, ":"));
    TRY(parse_expect_type(s, 0));
    return parse_result(s, parse_scalar_type(s->p, KTIR_INDEX));
}

// affine_map<(d0)[s0] -> (d0 + s0)>(%i)[%n]
static spyre_status parse_affine_op(statement *s)
{
    parser *p = s->p;
    const ktir_map *map;
    bool symbols;
    token at = p->l.now;
    TRY(parse_map(p, &map));
    TRY(parse_add(s, (ktir_attribute){.key = KTIR_KEY_SUBSCRIPTS, .map = map}));
    TRY(lexer_expect(&p->l, "("));
    TRY(parse_operands_to(s, ")"));
    uint32_t dims = s->operands.count;
    TRY(lexer_skip(&p->l, "[", &symbols));
    if (symbols) TRY(parse_operands_to(s, "]"));
    if (dims != map->dims || s->operands.count != map->dims + map->symbols)
        return PARSE_BAD(p, &at, "%u dims and %u symbols for a map of %u and %u", dims,
                         s->operands.count - dims, map->dims, map->symbols);
    return parse_result(s, parse_scalar_type(p, KTIR_INDEX));
}

spyre_status parse_tensor(statement *s, ktir_form form)
{
    if (form == KTIR_FORM_FROM_ELEMENTS) return parse_from_elements(s);
    if (form == KTIR_FORM_TENSOR_CAST) return parse_cast(s);
    if (form == KTIR_FORM_DIM) return parse_dim(s);
    if (form == KTIR_FORM_AFFINE) return parse_affine_op(s);
    if (form == KTIR_FORM_EMPTY) return parse_empty(s);
    if (form == KTIR_FORM_SPLAT) return parse_splat(s);
    if (form == KTIR_FORM_EXTRACT) return parse_extract(s);
    if (form == KTIR_FORM_RESHAPE) return parse_reshape(s);
    return parse_slice(s);
}
