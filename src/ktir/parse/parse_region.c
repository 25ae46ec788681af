// SPDX-License-Identifier: Apache-2.0
//
// Regions and results of operations. parse.c reads the operations of a region: parser.statements.
#include "ktir/parse/parse.h"

spyre_status parse_result(statement *s, const ktir_type *type)
{
    TRY_ALLOC(type);
    return VEC_PUSH(s->p->memory, &s->results, type);
}

spyre_status parse_begin(statement *s)
{
    s->number = s->p->m->ops.count;
    return VEC_PUSH(s->p->memory, &s->p->m->ops, s->op);
}

// Behind its '{'.
static spyre_status rest_of_region(statement *s, const parse_arguments *arguments)
{
    parser *p = s->p;
    ktir_region region = {.first_argument = p->m->values.count, .argument_count = arguments->count};
    const uint32_t visible = p->bindings.count;
    if (p->depth++ == PARSE_MOST_NESTED)
        return PARSE_BAD(p, &p->l.now, "more than %d nested regions", PARSE_MOST_NESTED);
    for (uint32_t a = 0; a < arguments->count; a++) {
        uint32_t value;
        TRY(parse_define(p, &arguments->names[a], arguments->types[a], UINT32_MAX, &value));
    }
    region.begin = p->m->ops.count;
    TRY(p->statements(p));
    region.end = p->m->ops.count;
    p->depth--;
    TRY(VEC_PUSH(p->memory, &s->regions, p->m->regions.count));
    TRY(VEC_PUSH(p->memory, &p->m->regions, region));
    TRY(lexer_expect(&p->l, "}"));
    parse_unbind(p, visible);
    return NULL;
}

spyre_status parse_region(statement *s, const parse_arguments *arguments)
{
    TRY(lexer_expect(&s->p->l, "{"));
    return rest_of_region(s, arguments);
}

spyre_status parse_typed_names(parser *p, const char *close, parse_arguments *out_arguments)
{
    out_arguments->count = 0;
    while (!lexer_at(&p->l, close)) {
        uint32_t n = out_arguments->count;
        if (n == PARSE_MOST_ARGUMENTS)
            return PARSE_BAD(p, &p->l.now, "more than %d arguments", PARSE_MOST_ARGUMENTS);
        TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &out_arguments->names[n]));
        TRY(lexer_expect(&p->l, ":"));
        TRY(parse_type(p, &out_arguments->types[n]));
        out_arguments->count++;
        TRY(parse_discarded_dictionary(p));
        TRY(parse_location(p));
        if (!lexer_at(&p->l, close)) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

spyre_status parse_block_region(statement *s)
{
    parse_arguments arguments = {0};
    parser *p = s->p;
    TRY(lexer_expect(&p->l, "{"));
    if (p->l.now.kind == TOKEN_WORD && p->l.now.start[0] == '^') {
        TRY(lexer_next(&p->l));
        TRY(lexer_expect(&p->l, "("));
        TRY(parse_typed_names(p, ")", &arguments));
        TRY(lexer_expect(&p->l, ":"));
    }
    return rest_of_region(s, &arguments);
}
