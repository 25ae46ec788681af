// SPDX-License-Identifier: Apache-2.0
//
// Affine maps, sets and expressions: sums of products, with mod, floordiv and ceildiv as tight as
// products. "%" and "/" are what RFC 0682 writes for mod and floordiv.
#include <string.h>

#include "ktir/parse/parse.h"

typedef struct {
    parser *p;
    parse_find_name find;
    void *context;
    uint32_t depth;
} reader;

static spyre_status read_sum(reader *r, const ktir_expr **out);

static spyre_status make(reader *r, ktir_expr_kind kind, int64_t number, const ktir_expr *left,
                         const ktir_expr *right, const ktir_expr **out)
{
    *out = ktir_expr_new(r->p->memory, kind, number, left, right);
    return *out ? NULL : status_no_memory();
}

static spyre_status negated(reader *r, const ktir_expr *e, const ktir_expr **out)
{
    if (e->kind == KTIR_EXPR_NUMBER && e->number != INT64_MIN)
        return make(r, KTIR_EXPR_NUMBER, -e->number, NULL, NULL, out);
    const ktir_expr *minus;
    TRY(make(r, KTIR_EXPR_NUMBER, -1, NULL, NULL, &minus));
    return make(r, KTIR_EXPR_MUL, 0, minus, e, out);
}

static spyre_status read_atom(reader *r, const ktir_expr **out)
{
    lexer *l = &r->p->l;
    token now = l->now;
    if (now.kind == TOKEN_NUMBER) {
        TRY(make(r, KTIR_EXPR_NUMBER, now.number, NULL, NULL, out));
        return lexer_next(l);
    }
    if (now.kind == TOKEN_WORD) {
        int64_t number;
        TRY(lexer_next(l));
        if (l->now.kind == TOKEN_WORD && l->now.start == now.start + now.length &&
            l->now.start[0] == '#') {               // %pid#1
            now.length += l->now.length;
            TRY(lexer_next(l));
        }
        TRY(r->find(r->context, &now, &number));
        return make(r, KTIR_EXPR_NAME, number, NULL, NULL, out);
    }
    if (r->depth == PARSE_MOST_NESTED)
        return PARSE_BAD(r->p, &now, "more than %d brackets deep", PARSE_MOST_NESTED);
    if (lexer_at(l, "-")) {
        const ktir_expr *e;
        r->depth++;
        TRY(lexer_next(l));
        TRY(read_atom(r, &e));
        r->depth--;
        return negated(r, e, out);
    }
    if (!lexer_at(l, "(")) return lexer_unexpected(l, "an expression");
    r->depth++;
    TRY(lexer_next(l));
    TRY(read_sum(r, out));
    r->depth--;
    return lexer_expect(l, ")");
}

static bool at_product(const lexer *l, ktir_expr_kind *out_kind)
{
    static const struct {
        const char *word;
        ktir_expr_kind kind;
    } signs[] = {{"*", KTIR_EXPR_MUL},      {"mod", KTIR_EXPR_MOD},
                 {"%", KTIR_EXPR_MOD},      {"floordiv", KTIR_EXPR_FLOORDIV},
                 {"/", KTIR_EXPR_FLOORDIV}, {"ceildiv", KTIR_EXPR_CEILDIV}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        *out_kind = signs[i].kind;
        if (lexer_at(l, signs[i].word)) return true;
    }
    return false;
}

static spyre_status read_product(reader *r, const ktir_expr **out)
{
    lexer *l = &r->p->l;
    ktir_expr_kind kind;
    uint32_t count = 0;
    TRY(read_atom(r, out));
    while (at_product(l, &kind)) {
        const ktir_expr *right;
        token sign = l->now;
        if (++count == PARSE_MOST_NESTED) return PARSE_BAD(r->p, &sign, "a product too long");
        TRY(lexer_next(l));
        TRY(read_atom(r, &right));
        bool numbers = right->kind == KTIR_EXPR_NUMBER, left = (*out)->kind == KTIR_EXPR_NUMBER;
        if (kind != KTIR_EXPR_MUL && numbers && right->number < 1)
            return PARSE_BAD(r->p, &sign, "division by %lld: it must be by a positive number",
                             (long long)right->number);
        if (kind == KTIR_EXPR_MUL && numbers && !left)
            TRY(make(r, kind, 0, right, *out, out));
        else
            TRY(make(r, kind, 0, *out, right, out));
    }
    return NULL;
}

static spyre_status read_sum(reader *r, const ktir_expr **out)
{
    lexer *l = &r->p->l;
    uint32_t count = 0;
    TRY(read_product(r, out));
    for (;;) {
        const ktir_expr *right;
        token sign = l->now;
        bool plus = lexer_at(l, "+"), minus = lexer_at(l, "-");
        // "a -4" lexes as a negative number: a term without a sign of its own.
        bool number = l->now.kind == TOKEN_NUMBER && l->now.start[0] == '-';
        if (!plus && !minus && !number) return NULL;
        if (++count == PARSE_MOST_NESTED) return PARSE_BAD(r->p, &sign, "a sum too long");
        if (!number) TRY(lexer_next(l));
        TRY(read_product(r, &right));
        if (minus) TRY(negated(r, right, &right));
        TRY(make(r, KTIR_EXPR_ADD, 0, *out, right, out));
    }
}

spyre_status parse_expression(parser *p, parse_find_name find, void *context,
                              const ktir_expr **out_expression)
{
    reader r = {.p = p, .find = find, .context = context};
    return read_sum(&r, out_expression);
}

// --- Maps and sets

typedef struct {
    parser *p;
    uint32_t count;
    token names[KTIR_MOST_NAMES];
} name_list;

static spyre_status find_name(void *context, const token *name, int64_t *out_number)
{
    const name_list *names = context;
    for (uint32_t n = 0; n < names->count; n++) {
        const token *candidate = &names->names[n];
        *out_number = n;
        if (candidate->length == name->length &&
            memcmp(candidate->start, name->start, name->length) == 0)
            return NULL;
    }
    return PARSE_BAD(names->p, name, "'%.*s' is neither dim nor symbol here", token_shown(name),
                     name->start);
}

static spyre_status read_names(name_list *names, const char *open, const char *close,
                               uint32_t *out_count)
{
    lexer *l = &names->p->l;
    *out_count = 0;
    TRY(lexer_expect(l, open));
    while (!lexer_at(l, close)) {
        token *name = &names->names[names->count];
        if (names->count == KTIR_MOST_NAMES || *out_count == KTIR_MOST_RANK)
            return PARSE_BAD(names->p, &l->now, "more than %d dims or symbols", KTIR_MOST_RANK);
        TRY(lexer_take(l, TOKEN_WORD, "the name of a dim", name));
        names->count++;
        ++*out_count;
        if (!lexer_at(l, close)) TRY(lexer_expect(l, ","));
    }
    return lexer_next(l);
}

static spyre_status read_head(parser *p, name_list *names, uint32_t *dims, uint32_t *symbols)
{
    *names = (name_list){.p = p};
    *symbols = 0;
    TRY(lexer_expect(&p->l, "<"));
    TRY(read_names(names, "(", ")", dims));
    if (lexer_at(&p->l, "[")) TRY(read_names(names, "[", "]", symbols));
    return NULL;
}

static spyre_status read_map(parser *p, ktir_map *map)
{
    name_list names;
    VEC(const ktir_expr *) results = {0};
    TRY(read_head(p, &names, &map->dims, &map->symbols));
    TRY(lexer_expect(&p->l, "->"));
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        const ktir_expr *e;
        if (results.count == KTIR_MOST_RESULTS)
            return PARSE_BAD(p, &p->l.now, "more than %d results", KTIR_MOST_RESULTS);
        TRY(parse_expression(p, find_name, &names, &e));
        TRY(VEC_PUSH(p->memory, &results, e));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    map->count = results.count;
    map->results = results.items;
    TRY(lexer_next(&p->l));
    return lexer_expect(&p->l, ">");
}

// a >= b becomes a - b >= 0, a <= b becomes b - a >= 0.
static spyre_status read_constraint(parser *p, name_list *names, const ktir_expr **out, bool *equal)
{
    reader r = {.p = p, .find = find_name, .context = names};
    const ktir_expr *left, *right;
    bool less, greater;
    TRY(read_sum(&r, &left));
    TRY(lexer_skip(&p->l, "<", &less));
    TRY(lexer_skip(&p->l, ">", &greater));
    *equal = !less && !greater;
    if (*equal) TRY(lexer_expect(&p->l, "="));
    TRY(lexer_expect(&p->l, "="));
    TRY(read_sum(&r, &right));
    if (less) {
        const ktir_expr *swapped = left;
        left = right;
        right = swapped;
    }
    *out = left;
    if (right->kind == KTIR_EXPR_NUMBER && right->number == 0) return NULL;
    TRY(negated(&r, right, &right));
    return make(&r, KTIR_EXPR_ADD, 0, left, right, out);
}

static spyre_status read_set(parser *p, ktir_set *set)
{
    name_list names;
    VEC(const ktir_expr *) constraints = {0};
    VEC(bool) equals = {0};
    TRY(read_head(p, &names, &set->dims, &set->symbols));
    TRY(lexer_expect(&p->l, ":"));
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        const ktir_expr *e;
        bool equal;
        if (constraints.count == KTIR_MOST_CONSTRAINTS)
            return PARSE_BAD(p, &p->l.now, "more than %d constraints", KTIR_MOST_CONSTRAINTS);
        TRY(read_constraint(p, &names, &e, &equal));
        TRY(VEC_PUSH(p->memory, &constraints, e));
        TRY(VEC_PUSH(p->memory, &equals, equal));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    set->count = constraints.count;
    set->constraints = constraints.items;
    set->equal = equals.items;
    TRY(lexer_next(&p->l));
    return lexer_expect(&p->l, ">");
}

static spyre_status find_alias(parser *p, const token *name, parse_alias_kind kind,
                               const parse_alias **out_alias)
{
    uint32_t number;
    if (!map_bytes_get(&p->alias_numbers, name->start, name->length, &number))
        return PARSE_BAD(p, name, "%.*s is not defined", token_shown(name), name->start);
    *out_alias = &p->aliases.items[number];
    if ((*out_alias)->kind != kind)
        return PARSE_BAD(p, name, "%.*s is an affine_%s", token_shown(name), name->start,
                         kind == PARSE_MAP ? "set" : "map");
    return NULL;
}

spyre_status parse_map(parser *p, const ktir_map **out_map)
{
    token name = p->l.now;
    const parse_alias *alias = NULL;
    if (name.kind == TOKEN_WORD && name.start[0] == '#') {
        TRY(find_alias(p, &name, PARSE_MAP, &alias));
        *out_map = alias->map;
        return lexer_next(&p->l);
    }
    ktir_map *map = ARENA_NEW(p->memory, ktir_map, 1);
    TRY_ALLOC(map);
    *out_map = map;
    TRY(lexer_expect(&p->l, "affine_map"));
    return read_map(p, map);
}

spyre_status parse_set(parser *p, const ktir_set **out_set)
{
    token name = p->l.now;
    const parse_alias *alias = NULL;
    if (name.kind == TOKEN_WORD && name.start[0] == '#') {
        TRY(find_alias(p, &name, PARSE_SET, &alias));
        *out_set = alias->set;
        return lexer_next(&p->l);
    }
    ktir_set *set = ARENA_NEW(p->memory, ktir_set, 1);
    TRY_ALLOC(set);
    *out_set = set;
    TRY(lexer_expect(&p->l, "affine_set"));
    return read_set(p, set);
}
