// SPDX-License-Identifier: Apache-2.0
//
// Numbers, lists and attributes of operations.
#include "ktir/parse/parse.h"

enum { MOST_ENTRIES = 4096 };

// [1, 2], [1 : i64, 2 : i64], array<i64: 1, 2>
spyre_status parse_list(parser *p, parse_numbers *out_numbers)
{
    const ktir_type *type;
    bool array;
    *out_numbers = (parse_numbers){0};
    TRY(lexer_skip(&p->l, "array", &array));
    TRY(lexer_expect(&p->l, array ? "<" : "["));
    if (array) TRY(parse_type(p, &type));
    if (array && !lexer_at(&p->l, ">")) TRY(lexer_expect(&p->l, ":"));
    const char *close = array ? ">" : "]";
    while (!lexer_at(&p->l, close)) {
        int64_t number;
        bool typed;
        if (out_numbers->count == MOST_ENTRIES)
            return PARSE_BAD(p, &p->l.now, "more than %d entries", MOST_ENTRIES);
        TRY(parse_integer(p, &number));
        TRY(VEC_PUSH(p->memory, out_numbers, number));
        TRY(lexer_skip(&p->l, ":", &typed));
        if (typed) TRY(parse_type(p, &type));
        if (!lexer_at(&p->l, close)) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

spyre_status parse_mixed_list(statement *s, ktir_key key)
{
    parser *p = s->p;
    parse_numbers numbers = {0};
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        int64_t number = KTIR_OPERAND;
        if (numbers.count == KTIR_MOST_RANK)
            return PARSE_BAD(p, &p->l.now, "more than %d entries", KTIR_MOST_RANK);
        if (p->l.now.kind == TOKEN_NUMBER) TRY(parse_integer(p, &number));
        else TRY(parse_operand(s, NULL));
        TRY(VEC_PUSH(p->memory, &numbers, number));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(lexer_next(&p->l));
    return parse_add_list(s, key, &numbers);
}

spyre_status parse_add(statement *s, ktir_attribute attribute)
{
    for (uint32_t a = 0; a < s->attributes.count; a++)
        if (s->attributes.items[a].key == attribute.key)
            return PARSE_BAD(s->p, &s->p->l.now, "%s is given twice",
                             ktir_key_describe(attribute.key)->name);
    return VEC_PUSH(s->p->memory, &s->attributes, attribute);
}

spyre_status parse_add_number(statement *s, ktir_key key, int64_t number)
{
    return parse_add(s, (ktir_attribute){.key = key, .number = number});
}

spyre_status parse_add_list(statement *s, ktir_key key, const parse_numbers *numbers)
{
    return parse_add(s, (ktir_attribute){.key = key, .count = numbers->count,
                                         .list = numbers->items});
}

// #ktdp.spyre_memory_space<HBM | LX[, core = N]> of RFC 0682, and what replaced it in
// torch-spyre/ktir-mlir-frontend#58: #ktdp.memory_space<global | ct_local[, ct_id = N]>.
static spyre_status parse_space(parser *p, int64_t *out_space)
{
    token name = p->l.now, kind;
    bool old = lexer_at(&p->l, "#ktdp.spyre_memory_space"), more;
    if (!old && !lexer_at(&p->l, "#ktdp.memory_space"))
        return PARSE_BAD(p, &name, "there is no memory space '%.*s'", token_shown(&name),
                         name.start);
    TRY(lexer_next(&p->l));
    TRY(lexer_expect(&p->l, "<"));
    TRY(lexer_take(&p->l, TOKEN_WORD, "a kind of memory", &kind));
    bool local = token_is(&kind, old ? "LX" : "ct_local");
    if (!local && !token_is(&kind, old ? "HBM" : "global"))
        return PARSE_BAD(p, &kind, "memory is %s, not '%.*s'",
                         old ? "HBM or LX" : "global or ct_local", token_shown(&kind), kind.start);
    *out_space = local ? KTIR_LX : KTIR_HBM;
    TRY(lexer_skip(&p->l, ",", &more));
    if (more) {
        int64_t core;
        token at;
        TRY(lexer_expect(&p->l, old ? "core" : "ct_id"));
        TRY(lexer_expect(&p->l, "="));
        at = p->l.now;
        TRY(parse_integer(p, &core));
        if (!local) return PARSE_BAD(p, &at, "memory of all cores has no core");
        if (core < 0 || core > 1 << 20)
            return PARSE_BAD(p, &at, "core %lld does not exist", (long long)core);
        *out_space = KTIR_LX_OF_CORE + core;
    }
    return lexer_expect(&p->l, ">");
}

static spyre_status parse_maps(parser *p, ktir_attribute *attribute)
{
    VEC(const ktir_map *) maps = {0};
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        const ktir_map *map;
        TRY(parse_map(p, &map));
        TRY(VEC_PUSH(p->memory, &maps, map));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    attribute->count = maps.count;
    attribute->maps = maps.items;
    return lexer_next(&p->l);
}

static spyre_status parse_iterators(parser *p, ktir_attribute *attribute)
{
    parse_numbers kinds = {0};
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        token kind;
        TRY(lexer_take(&p->l, TOKEN_STRING, "\"parallel\" or \"reduction\"", &kind));
        if (!token_is(&kind, "parallel") && !token_is(&kind, "reduction"))
            return PARSE_BAD(p, &kind, "an iterator is \"parallel\" or \"reduction\"");
        TRY(VEC_PUSH(p->memory, &kinds, (int64_t)token_is(&kind, "reduction")));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    attribute->count = kinds.count;
    attribute->list = kinds.items;
    return lexer_next(&p->l);
}

static bool key_named(const token *name, ktir_key *out_key)
{
    for (uint32_t k = 0; k < KTIR_KEY_COUNT; k++) {
        const char *candidate = ktir_key_describe((ktir_key)k)->name;
        *out_key = (ktir_key)k;
        if (*candidate && token_is(name, candidate)) return true;
    }
    return false;
}

spyre_status parse_named(statement *s)
{
    parser *p = s->p;
    token name;
    ktir_attribute a = {0};
    TRY(lexer_take(&p->l, TOKEN_WORD, "an attribute", &name));
    if (!key_named(&name, &a.key))
        return PARSE_BAD(p, &name, "there is no attribute '%.*s'", token_shown(&name), name.start);
    TRY(lexer_expect(&p->l, "="));
    if (a.key == KTIR_KEY_MEMORY_SPACE) {
        TRY(parse_space(p, &a.number));
        return parse_add(s, a);
    }
    switch (ktir_key_describe(a.key)->kind) {
    case KTIR_ATTRIBUTE_MAP: TRY(parse_map(p, &a.map)); break;
    case KTIR_ATTRIBUTE_SET: TRY(parse_set(p, &a.set)); break;
    case KTIR_ATTRIBUTE_MAPS: TRY(parse_maps(p, &a)); break;
    case KTIR_ATTRIBUTE_LIST:
        if (a.key == KTIR_KEY_ITERATORS) {
            TRY(parse_iterators(p, &a));
        } else {
            parse_numbers numbers;
            TRY(parse_list(p, &numbers));
            a.count = numbers.count;
            a.list = numbers.items;
        }
        break;
    case KTIR_ATTRIBUTE_NUMBER: case KTIR_ATTRIBUTE_LISTS: case KTIR_ATTRIBUTE_NAMES:
        return lexer_unexpected(&p->l, "another attribute");
    }
    return parse_add(s, a);
}

spyre_status parse_dictionary(statement *s)
{
    bool found;
    TRY(lexer_skip(&s->p->l, "{", &found));
    if (!found) return NULL;
    while (!lexer_at(&s->p->l, "}")) {
        TRY(parse_named(s));
        if (!lexer_at(&s->p->l, "}")) TRY(lexer_expect(&s->p->l, ","));
    }
    return lexer_next(&s->p->l);
}
