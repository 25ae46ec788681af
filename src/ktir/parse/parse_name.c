// SPDX-License-Identifier: Apache-2.0
//
// Names of values. A name is visible from its definition to the end of its region; sibling regions
// may use it again.
#include <string.h>

#include "ktir/parse/parse.h"

static spyre_status intern_name(parser *p, const char *start, size_t length, uint32_t *out_name)
{
    TRY(map_bytes_intern(p->memory, &p->names, start, length, p->bound.count, out_name));
    if (*out_name != p->bound.count) return NULL;
    const char *copy = arena_strndup(p->memory, start, length);
    TRY_ALLOC(copy);
    TRY(VEC_PUSH(p->memory, &p->spelled, copy));
    return VEC_PUSH(p->memory, &p->bound, (uint32_t)KTIR_NO_VALUE);
}

static spyre_status bind(parser *p, uint32_t name, uint32_t value)
{
    parse_binding binding = {name, p->bound.items[name]};
    p->bound.items[name] = value;
    return VEC_PUSH(p->memory, &p->bindings, binding);
}

void parse_unbind(parser *p, uint32_t down_to)
{
    while (p->bindings.count > down_to) {
        const parse_binding *last = &p->bindings.items[--p->bindings.count];
        p->bound.items[last->name] = last->shadowed;
    }
}

spyre_status parse_define_as(parser *p, const token *at, const token *spelled,
                             const ktir_type *type, uint32_t definition, uint32_t *out_value)
{
    uint32_t name;
    if (*spelled->start != '%' || spelled->length < 2)
        return PARSE_BAD(p, at, "'%.*s' is no name of a value", token_shown(at), at->start);
    TRY(intern_name(p, spelled->start, spelled->length, &name));
    if (p->bound.items[name] != KTIR_NO_VALUE)
        return PARSE_BAD(p, at, "%.*s is defined twice", token_shown(at), at->start);
    *out_value = p->m->values.count;
    ktir_value value = {.name = p->spelled.items[name], .type = type, .definition = definition};
    TRY(VEC_PUSH(p->memory, &p->m->values, value));
    return bind(p, name, *out_value);
}

spyre_status parse_define(parser *p, const token *name, const ktir_type *type, uint32_t definition,
                          uint32_t *out_value)
{
    return parse_define_as(p, name, name, type, definition, out_value);
}

spyre_status parse_rebind(parser *p, uint32_t from, uint32_t to)
{
    const char *name = p->m->values.items[from].name;
    uint32_t number;
    TRY(intern_name(p, name, strlen(name), &number));
    return bind(p, number, to);
}

static bool look_up(const parser *p, const char *start, size_t length, uint32_t *out_value)
{
    uint32_t name;
    if (!map_bytes_get(&p->names, start, length, &name)) return false;
    *out_value = p->bound.items[name];
    return *out_value != KTIR_NO_VALUE;
}

spyre_status parse_find(parser *p, const token *name, uint32_t *out_value)
{
    char with_sign[128] = "%";
    if (name->start[0] == '%' && look_up(p, name->start, name->length, out_value)) return NULL;
    if (name->start[0] != '%' && name->length < sizeof with_sign - 1) {
        memcpy(with_sign + 1, name->start, name->length);
        if (look_up(p, with_sign, name->length + 1, out_value)) return NULL;
    }
    return PARSE_BAD(p, name, "%.*s is not defined", token_shown(name), name->start);
}

// %pid#1 lexes as two words that touch.
static spyre_status take_name(parser *p, token *out_name)
{
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", out_name));
    const token *next = &p->l.now;
    if (next->kind == TOKEN_WORD && next->start[0] == '#' &&
        next->start == out_name->start + out_name->length) {
        out_name->length += next->length;
        return lexer_next(&p->l);
    }
    return NULL;
}

spyre_status parse_value(parser *p, uint32_t *out_value)
{
    token name;
    TRY(take_name(p, &name));
    return parse_find(p, &name, out_value);
}

const ktir_type *parse_type_of(const statement *s, uint32_t operand)
{
    return s->p->m->values.items[s->operands.items[operand]].type;
}

spyre_status parse_operand(statement *s, const ktir_type **out_type)
{
    uint32_t value;
    TRY(parse_value(s->p, &value));
    if (out_type) *out_type = s->p->m->values.items[value].type;
    return VEC_PUSH(s->p->memory, &s->operands, value);
}

static spyre_status type_mismatch(statement *s, const token *at, uint32_t operand,
                                  const ktir_type *found)
{
    text here = {0}, there = {0};
    ktir_type_print(found, &here);
    ktir_type_print(parse_type_of(s, operand), &there);
    spyre_status status = PARSE_BAD(s->p, at, "%s has type %s, not %s",
                                    s->p->m->values.items[s->operands.items[operand]].name,
                                    text_string(&there), text_string(&here));
    text_free(&here);
    text_free(&there);
    return status;
}

spyre_status parse_expect_type(statement *s, uint32_t operand)
{
    token at = s->p->l.now;
    const ktir_type *found;
    TRY(parse_type(s->p, &found));
    if (ktir_type_same(found, parse_type_of(s, operand))) return NULL;
    return type_mismatch(s, &at, operand, found);
}

spyre_status parse_operands(statement *s, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        if (n) TRY(lexer_expect(&s->p->l, ","));
        TRY(parse_operand(s, NULL));
    }
    return NULL;
}

spyre_status parse_all_operands(statement *s)
{
    bool more = true;
    while (more) {
        TRY(parse_operand(s, NULL));
        TRY(lexer_skip(&s->p->l, ",", &more));
    }
    return NULL;
}

spyre_status parse_operands_to(statement *s, const char *close)
{
    while (!lexer_at(&s->p->l, close)) {
        TRY(parse_operand(s, NULL));
        if (!lexer_at(&s->p->l, close)) TRY(lexer_expect(&s->p->l, ","));
    }
    return lexer_next(&s->p->l);
}

spyre_status parse_operand_types(statement *s, uint32_t first)
{
    TRY(parse_flags(s->p));
    TRY(lexer_expect(&s->p->l, ":"));
    for (uint32_t n = first; n < s->operands.count; n++) {
        if (n > first) TRY(lexer_expect(&s->p->l, ","));
        TRY(parse_expect_type(s, n));
    }
    return NULL;
}
