// SPDX-License-Identifier: Apache-2.0
//
// Recursive descent over a KTIR module: aliases, functions, statements. What stands behind a
// mnemonic is read by parse_arith.c, parse_linalg.c, parse_tensor.c, parse_scf.c, parse_ktdp.c.
#include <string.h>

#include "ktir/parse/parse.h"

enum { MOST_RESULTS = 64 };

typedef struct {
    uint32_t count;
    token names[MOST_RESULTS];
    uint32_t several[MOST_RESULTS];     // "%pid:2"
} result_names;

static spyre_status parse_result_names(parser *p, result_names *names)
{
    names->count = 0;
    while (p->l.now.kind == TOKEN_WORD && p->l.now.start[0] == '%') {
        bool several;
        uint32_t n = names->count;
        if (n == MOST_RESULTS) return PARSE_BAD(p, &p->l.now, "more than %d results", MOST_RESULTS);
        TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &names->names[n]));
        names->several[n] = 0;
        TRY(lexer_skip(&p->l, ":", &several));
        if (several) {
            token at = p->l.now;
            int64_t number;
            TRY(parse_integer(p, &number));
            if (number < 1 || number > MOST_RESULTS)
                return PARSE_BAD(p, &at, "%lld results: 1 to %d there can be", (long long)number,
                                 MOST_RESULTS);
            names->several[n] = (uint32_t)number;
        }
        names->count++;
        if (lexer_at(&p->l, "=")) return lexer_next(&p->l);
        TRY(lexer_expect(&p->l, ","));
    }
    return names->count ? lexer_unexpected(&p->l, "'='") : NULL;
}

static spyre_status define_several(statement *s, const token *name, uint32_t count, uint32_t *done)
{
    parser *p = s->p;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t value;
        token numbered = *name;
        numbered.start = arena_printf(p->memory, "%.*s#%u", (int)name->length, name->start, n);
        TRY_ALLOC(numbered.start);
        numbered.length = (uint32_t)strlen(numbered.start);
        TRY(parse_define_as(p, name, &numbered, s->results.items[*done], s->number, &value));
        ++*done;
    }
    return NULL;
}

static spyre_status define_results(statement *s, const result_names *names)
{
    parser *p = s->p;
    uint32_t done = 0, wanted = 0;
    for (uint32_t n = 0; n < names->count; n++) wanted += names->several[n] ? names->several[n] : 1;
    if (wanted != s->results.count)
        return PARSE_BAD(p, &s->at, "%s gives %u results, not %u",
                         ktir_op_describe(s->op.opcode)->mnemonic, s->results.count, wanted);
    for (uint32_t n = 0; n < names->count; n++) {
        uint32_t value;
        if (names->several[n]) {
            TRY(define_several(s, &names->names[n], names->several[n], &done));
        } else {
            TRY(parse_define(p, &names->names[n], s->results.items[done++], s->number, &value));
        }
    }
    return NULL;
}

static bool writes_outs(ktir_form form)
{
    return form == KTIR_FORM_LINALG_BINARY || form == KTIR_FORM_LINALG_UNARY ||
           form == KTIR_FORM_FILL || form == KTIR_FORM_MATMUL || form == KTIR_FORM_LINALG_REDUCE ||
           form == KTIR_FORM_BROADCAST || form == KTIR_FORM_TRANSPOSE ||
           form == KTIR_FORM_GENERIC || form == KTIR_FORM_MAP;
}

// linalg.add ins(..) outs(%c : ..) without a result: %c is the sum from here on.
static spyre_status define_in_place(statement *s)
{
    parser *p = s->p;
    uint32_t outs = s->operands.items[s->operands.count - 1];
    ktir_value value = p->m->values.items[outs];
    value.definition = s->number;
    s->op.in_place = true;
    TRY(VEC_PUSH(p->memory, &p->m->values, value));
    return parse_rebind(p, outs, p->m->values.count - 1);
}

static spyre_status finish(statement *s, const result_names *names)
{
    parser *p = s->p;
    ktir_module *m = p->m;
    ktir_op *op = &s->op;
    op->first_operand = m->operands.count;
    op->operand_count = s->operands.count;
    op->first_attribute = m->attributes.count;
    op->attribute_count = s->attributes.count;
    op->region_count = s->regions.count;
    op->first_region = s->regions.count ? s->regions.items[0] : 0;
    // Regions inside of regions came first: those of this operation become neighbours.
    if (s->regions.count > 1) {
        op->first_region = m->regions.count;
        for (uint32_t r = 0; r < s->regions.count; r++)
            TRY(VEC_PUSH(p->memory, &m->regions, m->regions.items[s->regions.items[r]]));
    }
    op->first_result = m->values.count;
    op->end = m->ops.count;
    for (uint32_t n = 0; n < s->operands.count; n++)
        TRY(VEC_PUSH(p->memory, &m->operands, s->operands.items[n]));
    for (uint32_t n = 0; n < s->attributes.count; n++)
        TRY(VEC_PUSH(p->memory, &m->attributes, s->attributes.items[n]));
    bool in_place = names->count == 0 && s->results.count == 1 &&
                    writes_outs(ktir_op_describe(op->opcode)->form);
    if (in_place) TRY(define_in_place(s));
    else TRY(define_results(s, names));
    op->result_count = s->results.count;
    m->ops.items[s->number] = *op;
    return NULL;
}

// math.sincos becomes math.sin and math.cos of its operand: each with one result, as the others.
static spyre_status split_sincos(statement *s)
{
    ktir_module *m = s->p->m;
    ktir_op *sine = &m->ops.items[s->number], cosine = *sine;
    sine->opcode = KTIR_OP_SIN;
    cosine.opcode = KTIR_OP_COS;
    sine->result_count = cosine.result_count = 1;
    cosine.first_result++;
    cosine.end++;
    m->values.items[cosine.first_result].definition = m->ops.count;
    return VEC_PUSH(s->p->memory, &m->ops, cosine);
}

static spyre_status parse_form(statement *s)
{
    ktir_form form = ktir_op_describe(s->op.opcode)->form;
    if (form <= KTIR_FORM_CAST) return parse_arith(s, form);
    if (form <= KTIR_FORM_LINALG_INDEX) return parse_linalg(s, form);
    if (form == KTIR_FORM_END || (form >= KTIR_FORM_FOR && form <= KTIR_FORM_SCF_REDUCE))
        return parse_scf(s, form);
    if (form <= KTIR_FORM_SLICE) return parse_tensor(s, form);
    return parse_ktdp(s, form);
}

static spyre_status parse_statement(parser *p)
{
    result_names names;
    statement s = {.p = p};
    ktir_opcode opcode = KTIR_OP_RETURN;
    TRY(parse_result_names(p, &names));
    s.at = p->l.now;
    TRY(lexer_take(&p->l, TOKEN_WORD, "an operation", &s.at));
    if (!ktir_op_named(s.at.start, s.at.length, &opcode) && !token_is(&s.at, "return"))
        return PARSE_BAD(p, &s.at, "there is no operation '%.*s'", token_shown(&s.at), s.at.start);
    s.op = (ktir_op){.opcode = opcode, .line = s.at.line, .column = s.at.column};
    TRY(parse_begin(&s));
    TRY(parse_form(&s));
    TRY(parse_location(p));
    TRY(finish(&s, &names));
    return opcode == KTIR_OP_SINCOS ? split_sincos(&s) : NULL;
}

static spyre_status parse_statements(parser *p)
{
    while (!lexer_at(&p->l, "}") && p->l.now.kind != TOKEN_END) TRY(parse_statement(p));
    return NULL;
}

// --- Functions and modules

static spyre_status parse_grid(parser *p, ktir_function *f)
{
    parse_numbers numbers;
    token at = p->l.now;
    double cores = 1;
    TRY(parse_list(p, &numbers));
    if (numbers.count < 1 || numbers.count > KTIR_MOST_GRID)
        return PARSE_BAD(p, &at, "a grid of %u dims: it has 1 to %d", numbers.count,
                         KTIR_MOST_GRID);
    f->grid_rank = numbers.count;
    for (uint32_t d = 0; d < numbers.count; d++) {
        f->grid[d] = numbers.items[d];
        if (f->grid[d] < 1) return PARSE_BAD(p, &at, "a grid of %lld", (long long)f->grid[d]);
        cores *= (double)f->grid[d];
    }
    if (cores > 4096) return PARSE_BAD(p, &at, "a grid of more than 4096 compute tiles");
    return NULL;
}

static spyre_status parse_function_attribute(parser *p, ktir_function *f)
{
    bool found, value;
    TRY(lexer_skip(&p->l, "noinline", &found));
    if (found) {
        TRY(lexer_skip(&p->l, "=", &value));
        return value ? lexer_next(&p->l) : NULL;
    }
    TRY(lexer_skip(&p->l, "grid", &found));
    if (!found) return parse_discarded(p);
    TRY(lexer_expect(&p->l, "="));
    return parse_grid(p, f);
}

static spyre_status parse_function_attributes(parser *p, ktir_function *f)
{
    bool found;
    TRY(lexer_skip(&p->l, "attributes", &found));
    if (!found) return NULL;
    TRY(lexer_expect(&p->l, "{"));
    while (!lexer_at(&p->l, "}")) {
        TRY(parse_function_attribute(p, f));
        if (!lexer_at(&p->l, "}")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

static spyre_status parse_function(parser *p)
{
    parse_arguments arguments;
    token name;
    bool visibility;
    TRY(lexer_expect(&p->l, "func.func"));
    TRY(lexer_skip(&p->l, "public", &visibility));
    if (!visibility) TRY(lexer_skip(&p->l, "private", &visibility));
    ktir_function f = {.line = p->l.now.line, .column = p->l.now.column};
    TRY(lexer_take(&p->l, TOKEN_WORD, "the name of a function", &name));
    if (name.start[0] != '@' || name.length < 2)
        return PARSE_BAD(p, &name, "the name of a function begins with '@'");
    f.name = arena_strndup(p->memory, name.start + 1, name.length - 1);
    TRY_ALLOC(f.name);
    for (uint32_t other = 0; other < p->m->functions.count; other++)
        if (strcmp(p->m->functions.items[other].name, f.name) == 0)
            return PARSE_BAD(p, &name, "@%s is defined twice", f.name);
    TRY(lexer_expect(&p->l, "("));
    TRY(parse_typed_names(p, ")", &arguments));
    TRY(parse_function_attributes(p, &f));
    statement body = {.p = p, .at = name};
    TRY(parse_region(&body, &arguments));
    f.body = p->m->regions.items[body.regions.items[0]];
    TRY(parse_location(p));
    return VEC_PUSH(p->memory, &p->m->functions, f);
}

static spyre_status parse_alias_definition(parser *p)
{
    token name = p->l.now;
    parse_alias alias = {.kind = PARSE_MAP};
    uint32_t number;
    char *spelled = arena_strndup(p->memory, name.start, name.length);
    TRY_ALLOC(spelled);
    TRY(lexer_next(&p->l));
    TRY(lexer_expect(&p->l, "="));
    if (lexer_at(&p->l, "loc")) return parse_location(p);
    if (lexer_at(&p->l, "affine_set")) {
        const ktir_set *set;
        TRY(parse_set(p, &set));
        ktir_set *named = ARENA_NEW(p->memory, ktir_set, 1);
        TRY_ALLOC(named);
        *named = *set;
        named->alias = spelled;
        alias = (parse_alias){.kind = PARSE_SET, .set = named};
        TRY(VEC_PUSH(p->memory, &p->m->sets, named));
    } else {
        const ktir_map *map;
        TRY(parse_map(p, &map));
        ktir_map *named = ARENA_NEW(p->memory, ktir_map, 1);
        TRY_ALLOC(named);
        *named = *map;
        named->alias = spelled;
        alias.map = named;
        TRY(VEC_PUSH(p->memory, &p->m->maps, named));
    }
    TRY(VEC_PUSH(p->memory, &p->m->aliases, (const char *)spelled));
    TRY(map_bytes_intern(p->memory, &p->alias_numbers, name.start, name.length, p->aliases.count,
                         &number));
    if (number != p->aliases.count)
        return PARSE_BAD(p, &name, "%.*s is defined twice", token_shown(&name), name.start);
    return VEC_PUSH(p->memory, &p->aliases, alias);
}

static spyre_status parse_aliases(parser *p)
{
    while (p->l.now.kind == TOKEN_WORD && p->l.now.start[0] == '#') TRY(parse_alias_definition(p));
    return NULL;
}

// module @name attributes {..} {
static spyre_status open_module(parser *p, bool *out_wrapped)
{
    bool attributes;
    TRY(lexer_skip(&p->l, "module", out_wrapped));
    if (!*out_wrapped) return NULL;
    if (p->l.now.kind == TOKEN_WORD && p->l.now.start[0] == '@') TRY(lexer_next(&p->l));
    TRY(lexer_skip(&p->l, "attributes", &attributes));
    if (attributes) TRY(parse_discarded_dictionary(p));
    return lexer_expect(&p->l, "{");
}

static spyre_status close_module(parser *p)
{
    TRY(lexer_expect(&p->l, "}"));
    return parse_location(p);
}

spyre_status ktir_parse(arena *memory, const char *source, size_t length, const char *file,
                        ktir_module **out_module)
{
    ktir_module *m = ARENA_NEW(memory, ktir_module, 1);
    bool wrapped;
    TRY_ALLOC(m);
    *out_module = m;
    m->memory = memory;
    m->file = arena_strdup(memory, file);
    TRY_ALLOC(m->file);
    parser p = {.m = m, .memory = memory, .statements = parse_statements};
    TRY(lexer_start(&p.l, m->file, source, length));
    TRY(parse_aliases(&p));
    TRY(open_module(&p, &wrapped));
    do {
        TRY(parse_aliases(&p));
        TRY(parse_function(&p));
    } while (lexer_at(&p.l, "func.func"));
    if (wrapped) TRY(close_module(&p));
    TRY(parse_aliases(&p));
    return p.l.now.kind == TOKEN_END ? NULL : lexer_unexpected(&p.l, "the end");
}
