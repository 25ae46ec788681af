// SPDX-License-Identifier: Apache-2.0
//
// Operations of the scf dialect, and what ends a region.
#include "ktir/parse/parse.h"

// %a, %b : T, T; or nothing.
static spyre_status parse_end(statement *s)
{
    parser *p = s->p;
    if (s->op.opcode == KTIR_OP_CONDITION) {
        TRY(lexer_expect(&p->l, "("));
        TRY(parse_operand(s, NULL));
        TRY(lexer_expect(&p->l, ")"));
    }
    bool any = p->l.now.kind == TOKEN_WORD && p->l.now.start[0] == '%';
    const uint32_t first = s->operands.count;
    if (!any) return NULL;
    TRY(parse_all_operands(s));
    return parse_operand_types(s, first);
}

// (T, T) or T: results.
static spyre_status parse_result_types(statement *s)
{
    parser *p = s->p;
    const ktir_type *type;
    bool several, more = true;
    TRY(lexer_skip(&p->l, "(", &several));
    if (several && lexer_at(&p->l, ")")) return lexer_next(&p->l);
    while (more) {
        TRY(parse_type(p, &type));
        TRY(parse_result(s, type));
        more = false;
        if (several) TRY(lexer_skip(&p->l, ",", &more));
    }
    return several ? lexer_expect(&p->l, ")") : NULL;
}

// (%a = %init, ..): names of arguments, operands.
static spyre_status parse_initial(statement *s, parse_arguments *arguments)
{
    parser *p = s->p;
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        if (arguments->count == PARSE_MOST_ARGUMENTS)
            return PARSE_BAD(p, &p->l.now, "more than %d arguments", PARSE_MOST_ARGUMENTS);
        TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &arguments->names[arguments->count]));
        TRY(lexer_expect(&p->l, "="));
        TRY(parse_operand(s, &arguments->types[arguments->count]));
        arguments->count++;
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

// iter_args(%a = %init, ..) -> (T, ..): names become arguments behind the induction variable.
static spyre_status parse_iter_args(statement *s, parse_arguments *arguments)
{
    parser *p = s->p;
    uint32_t first = arguments->count;
    TRY(parse_initial(s, arguments));
    TRY(lexer_expect(&p->l, "->"));
    token at = p->l.now;
    TRY(parse_result_types(s));
    for (uint32_t r = 0; r < s->results.count; r++)
        if (s->results.count != arguments->count - first ||
            !ktir_type_same(s->results.items[r], arguments->types[first + r]))
            return PARSE_BAD(p, &at, "the results are not those of iter_args");
    return NULL;
}

static spyre_status parse_for(statement *s)
{
    parser *p = s->p;
    parse_arguments arguments = {.count = 1};
    bool found;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &arguments.names[0]));
    TRY(lexer_expect(&p->l, "="));
    TRY(parse_operand(s, &arguments.types[0]));
    TRY(lexer_expect(&p->l, "to"));
    TRY(parse_operand(s, NULL));
    TRY(lexer_expect(&p->l, "step"));
    TRY(parse_operand(s, NULL));
    TRY(lexer_skip(&p->l, "iter_args", &found));
    if (found) TRY(parse_iter_args(s, &arguments));
    TRY(lexer_skip(&p->l, ":", &found));
    if (found) TRY(parse_expect_type(s, 0));
    return parse_region(s, &arguments);
}

static spyre_status parse_if(statement *s)
{
    const parse_arguments none = {0};
    parser *p = s->p;
    bool found;
    TRY(parse_operand(s, NULL));
    TRY(lexer_skip(&p->l, "->", &found));
    if (found) TRY(parse_result_types(s));
    TRY(parse_region(s, &none));
    TRY(lexer_skip(&p->l, "else", &found));
    return found ? parse_region(s, &none) : NULL;
}

// (%a = %init, ..) : (T, ..) -> (T, ..)
//     { .. scf.condition(%c) .. } do { ^bb0(..): .. scf.yield .. }
static spyre_status parse_while(statement *s)
{
    parser *p = s->p;
    parse_arguments arguments = {0};
    if (lexer_at(&p->l, "(")) TRY(parse_initial(s, &arguments));
    TRY(lexer_expect(&p->l, ":"));
    TRY(lexer_expect(&p->l, "("));
    for (uint32_t n = 0; n < arguments.count; n++) {
        if (n) TRY(lexer_expect(&p->l, ","));
        TRY(parse_expect_type(s, n));
    }
    TRY(lexer_expect(&p->l, ")"));
    TRY(lexer_expect(&p->l, "->"));
    TRY(parse_result_types(s));
    TRY(parse_region(s, &arguments));
    TRY(lexer_expect(&p->l, "do"));
    return parse_block_region(s);
}

// (%i, %j)
static spyre_status parse_induction(parser *p, parse_arguments *arguments)
{
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        if (arguments->count == KTIR_MOST_RANK)
            return PARSE_BAD(p, &p->l.now, "more than %d induction variables", KTIR_MOST_RANK);
        TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &arguments->names[arguments->count]));
        arguments->types[arguments->count++] = parse_scalar_type(p, KTIR_INDEX);
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

static spyre_status parse_bounds(statement *s, uint32_t wanted)
{
    parser *p = s->p;
    token at = p->l.now;
    uint32_t first = s->operands.count;
    TRY(lexer_expect(&p->l, "("));
    TRY(parse_operands_to(s, ")"));
    if (s->operands.count - first == wanted) return NULL;
    return PARSE_BAD(p, &at, "%u bounds for %u induction variables", s->operands.count - first,
                     wanted);
}

// (%i, ..) = (%lb, ..) to (%ub, ..) step (%s, ..) [init (%x) -> T] { .. scf.reduce(..) }
static spyre_status parse_parallel(statement *s)
{
    parser *p = s->p;
    parse_arguments arguments = {0};
    bool found;
    TRY(parse_induction(p, &arguments));
    TRY(lexer_expect(&p->l, "="));
    TRY(parse_bounds(s, arguments.count));
    TRY(lexer_expect(&p->l, "to"));
    TRY(parse_bounds(s, arguments.count));
    TRY(lexer_expect(&p->l, "step"));
    TRY(parse_bounds(s, arguments.count));
    TRY(lexer_skip(&p->l, "init", &found));
    if (found) {
        TRY(parse_bounds(s, 1));
        TRY(lexer_expect(&p->l, "->"));
        TRY(parse_result_types(s));
    }
    return parse_region(s, &arguments);
}

// (%i, ..) in (%n, ..) { .. }
static spyre_status parse_forall(statement *s)
{
    parser *p = s->p;
    parse_arguments arguments = {0};
    TRY(parse_induction(p, &arguments));
    TRY(lexer_expect(&p->l, "in"));
    TRY(parse_bounds(s, arguments.count));
    return parse_region(s, &arguments);
}

// (%v : T) { ^bb0(%l: T, %r: T): .. }, or nothing
static spyre_status parse_scf_reduce(statement *s)
{
    parser *p = s->p;
    bool found;
    TRY(lexer_skip(&p->l, "(", &found));
    if (!found) return NULL;
    TRY(parse_operand(s, NULL));
    TRY(parse_operand_types(s, 0));
    TRY(lexer_expect(&p->l, ")"));
    return parse_block_region(s);
}

spyre_status parse_scf(statement *s, ktir_form form)
{
    if (form == KTIR_FORM_FOR) return parse_for(s);
    if (form == KTIR_FORM_IF) return parse_if(s);
    if (form == KTIR_FORM_WHILE) return parse_while(s);
    if (form == KTIR_FORM_PARALLEL) return parse_parallel(s);
    if (form == KTIR_FORM_FORALL) return parse_forall(s);
    if (form == KTIR_FORM_SCF_REDUCE) return parse_scf_reduce(s);
    return parse_end(s);
}
