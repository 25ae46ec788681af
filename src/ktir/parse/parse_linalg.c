// SPDX-License-Identifier: Apache-2.0
//
// Operations of the linalg dialect on tensors: ins(..) outs(..), an attribute or two, maybe a
// region. The result has the type of outs.
#include "ktir/parse/parse.h"

// ins(%a, %b : T, T)
static spyre_status parse_bracket(statement *s, const char *word)
{
    TRY(lexer_expect(&s->p->l, word));
    TRY(lexer_expect(&s->p->l, "("));
    const uint32_t first = s->operands.count;
    TRY(parse_all_operands(s));
    TRY(parse_operand_types(s, first));
    return lexer_expect(&s->p->l, ")");
}

static spyre_status parse_ins_outs(statement *s)
{
    parser *p = s->p;
    if (lexer_at(&p->l, "ins")) TRY(parse_bracket(s, "ins"));
    TRY(parse_add_number(s, KTIR_KEY_INS, s->operands.count));
    uint32_t ins = s->operands.count;
    token at = p->l.now;
    TRY(parse_bracket(s, "outs"));
    if (s->operands.count == ins + 1) return NULL;
    return PARSE_BAD(p, &at, "%u outs: one is supported", s->operands.count - ins);
}

// -> T, or nothing.
static spyre_status parse_linalg_result(statement *s)
{
    bool typed;
    uint32_t outs = s->operands.count - 1;
    TRY(lexer_skip(&s->p->l, "->", &typed));
    if (typed) TRY(parse_expect_type(s, outs));
    return parse_result(s, parse_type_of(s, outs));
}

static spyre_status parse_ints(statement *s, const char *word)
{
    parse_numbers numbers;
    TRY(lexer_expect(&s->p->l, word));
    TRY(lexer_expect(&s->p->l, "="));
    TRY(parse_list(s->p, &numbers));
    return parse_add_list(s, KTIR_KEY_DIMENSIONS, &numbers);
}

// { arith.addf }
static spyre_status parse_combiner(statement *s, bool *out_found)
{
    parser *p = s->p;
    ktir_opcode opcode;
    token name;
    TRY(lexer_skip(&p->l, "{", out_found));
    if (!*out_found) return NULL;
    TRY(lexer_take(&p->l, TOKEN_WORD, "an operation", &name));
    if (!ktir_op_named(name.start, name.length, &opcode))
        return PARSE_BAD(p, &name, "there is no operation '%.*s'", token_shown(&name), name.start);
    ktir_form form = ktir_op_describe(opcode)->form;
    if (form != KTIR_FORM_BINARY && form != KTIR_FORM_UNARY && form != KTIR_FORM_TERNARY)
        return PARSE_BAD(p, &name, "%.*s combines no elements", token_shown(&name), name.start);
    TRY(parse_add_number(s, KTIR_KEY_COMBINER, opcode));
    return lexer_expect(&p->l, "}");
}

// (%in: f16, %out: f16) { .. }
static spyre_status parse_combining_region(statement *s)
{
    parse_arguments arguments;
    TRY(lexer_expect(&s->p->l, "("));
    TRY(parse_typed_names(s->p, ")", &arguments));
    return parse_region(s, &arguments);
}

static spyre_status parse_reduce(statement *s)
{
    bool brief;
    TRY(parse_combiner(s, &brief));
    TRY(parse_ins_outs(s));
    TRY(parse_ints(s, "dimensions"));
    if (!brief) TRY(parse_combining_region(s));
    return parse_linalg_result(s);
}

static spyre_status parse_map_op(statement *s)
{
    bool brief;
    TRY(parse_combiner(s, &brief));
    TRY(parse_ins_outs(s));
    if (!brief) TRY(parse_combining_region(s));
    return parse_linalg_result(s);
}

static spyre_status parse_generic(statement *s)
{
    TRY(parse_dictionary(s));
    TRY(parse_ins_outs(s));
    TRY(parse_block_region(s));
    return parse_linalg_result(s);
}

spyre_status parse_linalg(statement *s, ktir_form form)
{
    parser *p = s->p;
    if (form == KTIR_FORM_LINALG_REDUCE) return parse_reduce(s);
    if (form == KTIR_FORM_MAP) return parse_map_op(s);
    if (form == KTIR_FORM_GENERIC) return parse_generic(s);
    if (form == KTIR_FORM_LINALG_INDEX) {
        int64_t dim;
        TRY(parse_integer(p, &dim));
        TRY(parse_add_number(s, KTIR_KEY_VALUE, dim));
        TRY(lexer_expect(&p->l, ":"));
        TRY(lexer_expect(&p->l, "index"));
        return parse_result(s, parse_scalar_type(p, KTIR_INDEX));
    }
    TRY(parse_ins_outs(s));
    if (form == KTIR_FORM_BROADCAST) TRY(parse_ints(s, "dimensions"));
    if (form == KTIR_FORM_TRANSPOSE) TRY(parse_ints(s, "permutation"));
    return parse_linalg_result(s);
}
