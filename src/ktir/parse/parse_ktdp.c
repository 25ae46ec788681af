// SPDX-License-Identifier: Apache-2.0
//
// Operations of the ktdp dialect (RFC 0682), and the two of
// torch-spyre/ktir-mlir-frontend#23 that reduce between compute tiles.
#include <string.h>

#include "ktir/parse/parse.h"

static spyre_status parse_tile_id(statement *s)
{
    parser *p = s->p;
    bool more = true;
    TRY(lexer_expect(&p->l, ":"));
    while (more) {
        TRY(lexer_expect(&p->l, "index"));
        TRY(parse_result(s, parse_scalar_type(p, KTIR_INDEX)));
        TRY(lexer_skip(&p->l, ",", &more));
    }
    return NULL;
}

static spyre_status parse_result_type(statement *s, const char *sign, ktir_kind kind,
                                      const char *what)
{
    const ktir_type *type;
    TRY(lexer_expect(&s->p->l, sign));
    token at = s->p->l.now;
    TRY(parse_type(s->p, &type));
    if (type->kind != kind) return PARSE_BAD(s->p, &at, "the result is %s", what);
    return parse_result(s, type);
}

// %base, sizes: [..], strides: [..] {..} : memref<..>
static spyre_status parse_memory_view(statement *s)
{
    parser *p = s->p;
    TRY(parse_operand(s, NULL));
    TRY(lexer_expect(&p->l, ","));
    TRY(lexer_expect(&p->l, "sizes"));
    TRY(lexer_expect(&p->l, ":"));
    TRY(parse_mixed_list(s, KTIR_KEY_SIZES));
    TRY(lexer_expect(&p->l, ","));
    TRY(lexer_expect(&p->l, "strides"));
    TRY(lexer_expect(&p->l, ":"));
    TRY(parse_mixed_list(s, KTIR_KEY_STRIDES));
    TRY(parse_dictionary(s));
    return parse_result_type(s, ":", KTIR_MEMREF, "a memref");
}

// (%a, %b : T, T) : memref<..>
static spyre_status parse_distributed_view(statement *s)
{
    TRY(lexer_expect(&s->p->l, "("));
    TRY(parse_all_operands(s));
    TRY(parse_operand_types(s, 0));
    TRY(lexer_expect(&s->p->l, ")"));
    return parse_result_type(s, ":", KTIR_MEMREF, "a memref");
}

// --- Subscripts: expressions over variables of the operation, and over values, which become
// operands.

typedef struct {
    statement *s;
    uint32_t variables;                 // first names
    token names[KTIR_MOST_RANK];
    uint32_t first_operand;             // of the values
    VEC(const ktir_expr *) results;
} subscripts;

static spyre_status find_subscript(void *context, const token *name, int64_t *out_number)
{
    subscripts *x = context;
    parser *p = x->s->p;
    uint32_t value;
    for (uint32_t n = 0; n < x->variables; n++) {
        *out_number = n;
        if (x->names[n].length == name->length &&
            memcmp(x->names[n].start, name->start, name->length) == 0)
            return NULL;
    }
    TRY(parse_find(p, name, &value));
    for (uint32_t n = x->first_operand; n < x->s->operands.count; n++) {
        *out_number = x->variables + n - x->first_operand;
        if (x->s->operands.items[n] == value) return NULL;
    }
    *out_number = x->variables + x->s->operands.count - x->first_operand;
    if (*out_number == KTIR_MOST_NAMES)
        return PARSE_BAD(p, name, "more than %d values in subscripts", KTIR_MOST_NAMES);
    return VEC_PUSH(p->memory, &x->s->operands, value);
}

static spyre_status parse_subscript(subscripts *x)
{
    const ktir_expr *e;
    parser *p = x->s->p;
    if (x->results.count == 2 * KTIR_MOST_RANK)
        return PARSE_BAD(p, &p->l.now, "more than %d subscripts", 2 * KTIR_MOST_RANK);
    TRY(parse_expression(p, find_subscript, x, &e));
    return VEC_PUSH(p->memory, &x->results, e);
}

static spyre_status add_subscripts(subscripts *x)
{
    statement *s = x->s;
    ktir_map *map = ARENA_NEW(s->p->memory, ktir_map, 1);
    TRY_ALLOC(map);
    *map = (ktir_map){.dims = x->variables + s->operands.count - x->first_operand,
                      .count = x->results.count, .results = x->results.items};
    return parse_add(s, (ktir_attribute){.key = KTIR_KEY_SUBSCRIPTS, .map = map});
}

// %view[%i, %j + 1] {..} : memref<..> -> !ktdp.access_tile<..>
static spyre_status parse_access_tile(statement *s)
{
    parser *p = s->p;
    subscripts x = {.s = s, .first_operand = 1};
    TRY(parse_operand(s, NULL));
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        TRY(parse_subscript(&x));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(lexer_next(&p->l));
    TRY(add_subscripts(&x));
    TRY(parse_dictionary(s));
    TRY(lexer_expect(&p->l, ":"));
    TRY(parse_expect_type(s, 0));
    return parse_result_type(s, "->", KTIR_TILE, "an access tile");
}

// An index view and its subscripts: ind(%v[..]), or %v[..] as RFC 0682 has it.
typedef struct {
    bool found;
    token name;
    uint32_t value;
} index_view;

static spyre_status parse_index_view(subscripts *x)
{
    parser *p = x->s->p;
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        TRY(parse_subscript(x));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

// A name that a '[' follows.
static bool at_view(const lexer *l)
{
    const char *at = l->at;
    while (at < l->end && (*at == ' ' || *at == '\t')) at++;
    return l->now.kind == TOKEN_WORD && at < l->end && *at == '[';
}

typedef struct {
    VEC(uint32_t) views;                // values
    parse_numbers which;                // a dim of the base: number of its view, or -1
} indirections;

static spyre_status parse_indirect_dim(subscripts *x, indirections *d)
{
    parser *p = x->s->p;
    bool ind;
    TRY(lexer_skip(&p->l, "ind", &ind));
    if (ind) TRY(lexer_expect(&p->l, "("));
    if (ind || at_view(&p->l)) {
        uint32_t view;
        TRY(parse_value(p, &view));
        TRY(VEC_PUSH(p->memory, &d->which, (int64_t)d->views.count));
        TRY(VEC_PUSH(p->memory, &d->views, view));
        TRY(parse_index_view(x));
        return ind ? lexer_expect(&p->l, ")") : NULL;
    }
    TRY(VEC_PUSH(p->memory, &d->which, (int64_t)-1));
    return parse_subscript(x);
}

static spyre_status parse_variables(subscripts *x)
{
    parser *p = x->s->p;
    VEC(const char *) names = {0};
    TRY(lexer_expect(&p->l, "intermediate_variables"));
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        if (x->variables == KTIR_MOST_RANK)
            return PARSE_BAD(p, &p->l.now, "more than %d variables", KTIR_MOST_RANK);
        token *name = &x->names[x->variables++];
        TRY(lexer_take(&p->l, TOKEN_WORD, "a variable", name));
        const char *copy = arena_strndup(p->memory, name->start, name->length);
        TRY_ALLOC(copy);
        TRY(VEC_PUSH(p->memory, &names, copy));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(parse_add(x->s, (ktir_attribute){.key = KTIR_KEY_VARIABLES, .count = names.count,
                                         .names = names.items}));
    return lexer_next(&p->l);
}

// Operands: the base, values of subscripts, index views.
static spyre_status parse_indirect_tile(statement *s)
{
    parser *p = s->p;
    subscripts x = {.s = s, .first_operand = 1};
    indirections d = {0};
    bool more;
    TRY(parse_variables(&x));
    TRY(parse_operand(s, NULL));
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        TRY(parse_indirect_dim(&x, &d));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(lexer_next(&p->l));
    TRY(add_subscripts(&x));
    TRY(parse_add_list(s, KTIR_KEY_VIEWS, &d.which));
    TRY(parse_dictionary(s));
    TRY(lexer_expect(&p->l, ":"));
    TRY(parse_expect_type(s, 0));
    for (uint32_t v = 0; v < d.views.count; v++) {
        TRY(VEC_PUSH(p->memory, &s->operands, d.views.items[v]));
        TRY(lexer_skip(&p->l, ",", &more));
        if (!more) return lexer_unexpected(&p->l, "',' and the type of an index view");
        TRY(parse_expect_type(s, s->operands.count - 1));
    }
    return parse_result_type(s, "->", KTIR_TILE, "an access tile");
}

// %tile : T -> tensor<..>
static spyre_status parse_load(statement *s)
{
    TRY(parse_operand(s, NULL));
    TRY(parse_operand_types(s, 0));
    return parse_result_type(s, "->", KTIR_TENSOR, "a tensor");
}

// %data, %tile : tensor<..>, T
static spyre_status parse_store(statement *s)
{
    TRY(parse_operands(s, 2));
    return parse_operand_types(s, 0);
}

// producer_tiles_per_group = #set [: T] -> future { .. }
static spyre_status parse_produce(statement *s)
{
    parser *p = s->p;
    bool typed;
    const ktir_type *partial;
    TRY(parse_named(s));
    TRY(lexer_skip(&p->l, ":", &typed));
    if (typed) TRY(parse_type(p, &partial));
    TRY(parse_result_type(s, "->", KTIR_FUTURE, "a tile_future"));
    return parse_block_region(s);
}

// (%future) consumer_tiles_per_group = #set, identity(%e : T) : future -> tensor<..> { .. }
static spyre_status parse_tile_reduce(statement *s)
{
    parser *p = s->p;
    bool more = true;
    TRY(lexer_expect(&p->l, "("));
    TRY(parse_operand(s, NULL));
    TRY(lexer_expect(&p->l, ")"));
    while (more) {
        bool identity;
        TRY(lexer_skip(&p->l, "identity", &identity));
        if (identity) {
            TRY(lexer_expect(&p->l, "("));
            TRY(parse_operand(s, NULL));
            TRY(lexer_expect(&p->l, ":"));
            TRY(parse_expect_type(s, s->operands.count - 1));
            TRY(lexer_expect(&p->l, ")"));
        } else {
            TRY(parse_named(s));
        }
        TRY(lexer_skip(&p->l, ",", &more));
    }
    TRY(lexer_expect(&p->l, ":"));
    TRY(parse_expect_type(s, 0));
    TRY(parse_result_type(s, "->", KTIR_TENSOR, "a tensor"));
    return parse_block_region(s);
}

spyre_status parse_ktdp(statement *s, ktir_form form)
{
    if (form == KTIR_FORM_TILE_ID) return parse_tile_id(s);
    if (form == KTIR_FORM_MEMORY_VIEW) return parse_memory_view(s);
    if (form == KTIR_FORM_DISTRIBUTED_VIEW) return parse_distributed_view(s);
    if (form == KTIR_FORM_ACCESS_TILE) return parse_access_tile(s);
    if (form == KTIR_FORM_INDIRECT_TILE) return parse_indirect_tile(s);
    if (form == KTIR_FORM_LOAD) return parse_load(s);
    if (form == KTIR_FORM_STORE) return parse_store(s);
    if (form == KTIR_FORM_PRODUCE) return parse_produce(s);
    return parse_tile_reduce(s);
}
