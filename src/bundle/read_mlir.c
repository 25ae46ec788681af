// SPDX-License-Identifier: Apache-2.0
//
// Recursive descent over bundle.mlir: what leaves is a flat list of statements with the values of
// their symbols.
#include <string.h>

#include "bundle/mlir_parser.h"

enum { MOST_SYMBOLS = 1 << 16 };

// --- Statements

static spyre_status read_operations(mlir_parser *p);

// The end of a loop: a number, or a symbol's value, whose largest then stands for it.
static spyre_status take_end(mlir_parser *p, int64_t *out_last, uint32_t *out_symbol)
{
    lexer before = p->l;
    mlir_value value;
    TRY(mlir_take_value(p, &value));
    *out_symbol = value.symbol;
    if (value.symbol) {
        *out_last = p->program->symbols.items[value.symbol - 1].most;
        return NULL;
    }
    p->l = before;
    return mlir_take_constant(p, out_last);
}

static spyre_status check_symbolic(const mlir_parser *p, const token *at, uint32_t symbol,
                                   int64_t first, int64_t step)
{
    if (!symbol) return NULL;
    const bundle_symbol *s = &p->program->symbols.items[symbol - 1];
    if (first == 0 && step >= 1 && s->granularity % step == 0) return NULL;
    return BAD(at, "a loop to %s begins at 0 and has a step that divides its granularity %lld",
               s->name, (long long)s->granularity);
}

static spyre_status read_loop(mlir_parser *p)
{
    token name;
    mlir_value induction = {.arg = MLIR_NO_ARG};
    int64_t first, last, step;
    const token at = p->l.now;
    uint32_t scope = p->values.count, symbol;
    TRY(lexer_next(&p->l));
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &name));
    TRY(lexer_expect(&p->l, "="));
    TRY(mlir_take_constant(p, &first));
    TRY(lexer_expect(&p->l, "to"));
    TRY(take_end(p, &last, &symbol));
    TRY(lexer_expect(&p->l, "step"));
    TRY(mlir_take_constant(p, &step));
    TRY(check_symbolic(p, &at, symbol, first, step));
    TRY(lexer_expect(&p->l, "{"));
    if (p->depth == BUNDLE_MAX_LOOPS) {
        return mlir_error(&at, SPYRE_UNSUPPORTED, "more than %d nested loops", BUNDLE_MAX_LOOPS);
    }
    const int64_t bound = 1LL << 40;
    if (first < -bound || last > bound || step < 1 || step > bound || last <= first) {
        return BAD(&at, "a loop from %lld to %lld by %lld", (long long)first, (long long)last,
                   (long long)step);
    }
    mlir_statement loop = {.kind = BUNDLE_LOOP, .line = at.line,
                           .count = (last - first + step - 1) / step,
                           .loop_symbol = symbol, .per = symbol ? step : 0};
    mlir_statement end = {.kind = BUNDLE_END, .line = at.line};
    induction.offset = first;
    induction.loop_stride[p->depth] = step;
    TRY(mlir_define(p, &name, &induction));
    TRY(VEC_PUSH(p->memory, &p->program->body, loop));
    p->depth++;
    TRY(read_operations(p));
    p->depth--;
    for (uint32_t i = scope; i < p->values.count; i++) p->values.items[i].ended = true;
    TRY(lexer_expect(&p->l, "}"));
    return VEC_PUSH(p->memory, &p->program->body, end);
}

typedef VEC(mlir_value) value_list;
typedef VEC(int64_t) id_list;

static spyre_status take_ids(mlir_parser *p, id_list *ids)
{
    token number;
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        TRY(lexer_take(&p->l, TOKEN_NUMBER, "a symbol id", &number));
        if (number.number >= 0) return BAD(&number, "a symbol id must be negative");
        TRY(VEC_PUSH(p->memory, ids, number.number));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

// {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
static spyre_status take_attributes(mlir_parser *p, token *out_file, id_list *ids)
{
    *out_file = (token){0};
    TRY(lexer_expect(&p->l, "{"));
    while (!lexer_at(&p->l, "}")) {
        token key = p->l.now;
        if (key.kind != TOKEN_WORD && key.kind != TOKEN_STRING) {
            return lexer_unexpected(&p->l, "an attribute");
        }
        TRY(lexer_next(&p->l));
        TRY(lexer_expect(&p->l, "="));
        if (token_is(&key, "sdsc_filename")) {
            TRY(lexer_take(&p->l, TOKEN_STRING, "a file name", out_file));
        } else if (token_is(&key, "symbol_ids")) {
            TRY(take_ids(p, ids));
        } else {
            return mlir_error(&key, SPYRE_UNSUPPORTED, "attribute %.*s is not supported",
                               token_shown(&key), key.start);
        }
        if (!lexer_at(&p->l, "}")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

static spyre_status read_execute(mlir_parser *p)
{
    const token at = p->l.now;
    value_list values = {0};
    id_list ids = {0};
    token file;
    TRY(lexer_next(&p->l));
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        mlir_value value;
        TRY(mlir_take_value(p, &value));
        TRY(VEC_PUSH(p->memory, &values, value));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(lexer_next(&p->l));
    TRY(take_attributes(p, &file, &ids));
    if (file.length == 0) return BAD(&at, "sdsc_execute without sdsc_filename");
    if (memchr(file.start, '/', file.length) || file.start[0] == '.') {
        return BAD(&at, "sdsc_filename \"%.*s\" is not a plain file name", token_shown(&file),
                   file.start);
    }
    if (ids.count != values.count || ids.count > MOST_SYMBOLS) {
        return BAD(&at, "%u operands for %u symbol_ids", values.count, ids.count);
    }
    mlir_statement execute = {.kind = BUNDLE_EXECUTE, .line = at.line, .symbol_count = ids.count,
                              .ids = ids.items, .values = values.items};
    execute.file = arena_strndup(p->memory, file.start, file.length);
    TRY_ALLOC(execute.file);
    return VEC_PUSH(p->memory, &p->program->body, execute);
}

// Operations up to a '}' or a return.
static spyre_status read_operations(mlir_parser *p)
{
    while (!lexer_at(&p->l, "}") && !lexer_at(&p->l, "return")) {
        const token *now = &p->l.now;
        if (now->kind != TOKEN_WORD) return lexer_unexpected(&p->l, "an operation");
        if (lexer_at(&p->l, "scf.for")) {
            TRY(read_loop(p));
        } else if (lexer_at(&p->l, "sdscbundle.sdsc_execute")) {
            TRY(read_execute(p));
        } else if (now->start[0] == '%') {
            TRY(mlir_read_assignment(p));
        } else {
            return mlir_unknown_operation(now);
        }
    }
    return NULL;
}

spyre_status mlir_read(arena *memory, const char *source, size_t length, bool pool_first,
                       mlir_program *out_program)
{
    *out_program = (mlir_program){0};
    mlir_parser p = {.memory = memory, .pool_first = pool_first, .program = out_program};
    token name;
    TRY(lexer_start(&p.l, "bundle.mlir", source, length));
    while (p.l.now.kind == TOKEN_WORD && p.l.now.start[0] == '#') TRY(mlir_read_map(&p));
    TRY(lexer_expect(&p.l, "module"));
    TRY(lexer_expect(&p.l, "{"));
    TRY(lexer_expect(&p.l, "func.func"));
    TRY(lexer_take(&p.l, TOKEN_WORD, "the name of the function", &name));
    TRY(mlir_read_arguments(&p));
    TRY(lexer_expect(&p.l, "{"));
    TRY(read_operations(&p));
    TRY(lexer_expect(&p.l, "return"));
    TRY(lexer_expect(&p.l, "}"));
    TRY(lexer_expect(&p.l, "}"));
    return p.l.now.kind == TOKEN_END ? NULL : lexer_unexpected(&p.l, "the end");
}
