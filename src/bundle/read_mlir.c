// SPDX-License-Identifier: Apache-2.0
//
// Recursive descent over bundle.mlir; values are computed while reading, so what leaves is a flat
// list of statements. Operations outside the subset are refused by name.
#include <string.h>

#include "base/map.h"
#include "bundle/mlir.h"
#include "bundle/mlir_affine.h"
#include "bundle/mlir_lexer.h"

#define BAD(line, ...) lexer_error((line), SPYRE_INVALID_FORMAT, __VA_ARGS__)

static const char POOL[] = "%pool_base_addr";

enum { MOST_ARGUMENTS = 4096, MOST_SYMBOLS = 1 << 16 };

typedef struct {
    mlir_value value;
    bool ended;                     // its loop has ended
} definition;

typedef struct {
    lexer l;
    arena *memory;
    bool pool_first;
    mlir_program *program;
    map_bytes value_numbers;
    VEC(definition) values;
    map_bytes map_numbers;
    VEC(affine_map) maps;
    uint32_t depth;
} parser;

// --- Values by name

static int shown(const token *t)
{
    return t->length < 60 ? (int)t->length : 60;
}

static spyre_status define(parser *p, const token *name, const mlir_value *value)
{
    uint32_t number;
    if (name->start[0] != '%') {
        return BAD(name->line, "'%.*s' is no value", shown(name), name->start);
    }
    TRY(map_bytes_intern(p->memory, &p->value_numbers, name->start, name->length, p->values.count,
                         &number));
    if (number != p->values.count) {
        return BAD(name->line, "%.*s is defined twice", shown(name), name->start);
    }
    definition fresh = {.value = *value};
    return VEC_PUSH(p->memory, &p->values, fresh);
}

static spyre_status look_up(parser *p, const token *name, mlir_value *out_value)
{
    uint32_t number;
    if (!map_bytes_get(&p->value_numbers, name->start, name->length, &number)) {
        return BAD(name->line, "%.*s is not defined", shown(name), name->start);
    }
    if (p->values.items[number].ended) {
        return BAD(name->line, "%.*s is used outside of its loop", shown(name), name->start);
    }
    *out_value = p->values.items[number].value;
    return NULL;
}

static spyre_status take_value(parser *p, mlir_value *out_value)
{
    token name;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &name));
    return look_up(p, &name, out_value);
}

// A number that does not depend on a loop or an argument.
static spyre_status take_constant(parser *p, int64_t *out_number)
{
    uint32_t line = p->l.now.line;
    mlir_value value, zero = {.arg = MLIR_NO_ARG};
    TRY(take_value(p, &value));
    *out_number = zero.offset = value.offset;
    if (memcmp(value.loop_stride, zero.loop_stride, sizeof zero.loop_stride) != 0 ||
        value.arg != MLIR_NO_ARG) {
        return BAD(line, "a loop bound must be a constant");
    }
    return NULL;
}

static spyre_status skip_index_type(parser *p)
{
    if (!lexer_at(&p->l, ":")) return NULL;
    TRY(lexer_next(&p->l));
    return lexer_expect(&p->l, "index");
}

// --- The function's arguments

// Finds the launch argument of %pool_base_addr or %arg_<i>_base_addr.
static spyre_status argument_of(parser *p, const token *name, int32_t *out_arg)
{
    static const char head[] = "%arg_", tail[] = "_base_addr";
    size_t head_length = sizeof head - 1, tail_length = sizeof tail - 1;
    *out_arg = 0;
    if (token_is(name, POOL)) return NULL;
    int64_t number = -1;
    size_t digits = name->length - head_length - tail_length;
    bool fits = name->length > head_length + tail_length && digits <= 6 &&
                memcmp(name->start, head, head_length) == 0 &&
                memcmp(name->start + head_length + digits, tail, tail_length) == 0;
    for (size_t i = 0; fits && i < digits; i++) {
        char c = name->start[head_length + i];
        fits = c >= '0' && c <= '9';
        number = (number < 0 ? 0 : number * 10) + (c - '0');
    }
    if (!fits || number < 0 || number >= MOST_ARGUMENTS) {
        return BAD(name->line, "argument %.*s is neither %%pool_base_addr nor %%arg_<i>_base_addr",
                   shown(name), name->start);
    }
    *out_arg = (int32_t)number + (p->program->has_pool || p->pool_first ? 1 : 0);
    return NULL;
}

static spyre_status read_argument(parser *p)
{
    token name;
    TRY(lexer_take(&p->l, TOKEN_WORD, "an argument", &name));
    TRY(lexer_expect(&p->l, ":"));
    TRY(lexer_expect(&p->l, "!sdscbundle.input_arg"));
    TRY(lexer_expect(&p->l, "<"));
    TRY(lexer_expect(&p->l, "index"));
    TRY(lexer_expect(&p->l, ">"));
    if (token_is(&name, POOL)) {
        if (p->values.count > 0) return BAD(name.line, "the pool must be the first argument");
        p->program->has_pool = true;
    }
    mlir_value base = {0};
    TRY(argument_of(p, &name, &base.arg));
    if ((uint32_t)base.arg >= p->program->arg_count) p->program->arg_count = (uint32_t)base.arg + 1;
    return define(p, &name, &base);
}

static spyre_status read_arguments(parser *p)
{
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        TRY(read_argument(p));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

// --- Operations with a result

// value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
static spyre_status read_extract(parser *p, mlir_value *out_value)
{
    TRY(lexer_expect(&p->l, "value"));
    TRY(lexer_expect(&p->l, "from"));
    TRY(take_value(p, out_value));
    if (!lexer_at(&p->l, ":")) return NULL;
    static const char *const type[] = {":", "!sdscbundle.input_arg", "<", "index", ">", "->",
                                       "index"};
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) TRY(lexer_expect(&p->l, type[i]));
    return NULL;
}

static spyre_status read_constant(parser *p, mlir_value *out_value)
{
    token number;
    TRY(lexer_take(&p->l, TOKEN_NUMBER, "an integer", &number));
    *out_value = (mlir_value){.arg = MLIR_NO_ARG, .offset = number.number};
    return skip_index_type(p);
}

static spyre_status read_sum(parser *p, mlir_value *out_value)
{
    uint32_t line = p->l.now.line;
    mlir_value a, b;
    TRY(take_value(p, &a));
    TRY(lexer_expect(&p->l, ","));
    TRY(take_value(p, &b));
    TRY(mlir_add_scaled(line, &a, 1, &b, out_value));
    return skip_index_type(p);
}

static spyre_status take_operands(parser *p, const char *open, const char *close, uint32_t expected,
                                  mlir_value *out_values)
{
    uint32_t line = p->l.now.line, count = 0;
    TRY(lexer_expect(&p->l, open));
    while (!lexer_at(&p->l, close)) {
        if (count == expected) return BAD(line, "affine.apply has more operands than its map");
        TRY(take_value(p, &out_values[count++]));
        if (!lexer_at(&p->l, close)) TRY(lexer_expect(&p->l, ","));
    }
    if (count < expected) return BAD(line, "affine.apply has fewer operands than its map");
    return lexer_next(&p->l);
}

static spyre_status read_apply(parser *p, mlir_value *out_value)
{
    token name;
    uint32_t number;
    affine_map map;
    mlir_value operands[AFFINE_MAX_OPERANDS];
    TRY(lexer_take(&p->l, TOKEN_WORD, "an affine map", &name));
    if (token_is(&name, "affine_map")) {
        TRY(affine_read(&p->l, &map));
    } else if (map_bytes_get(&p->map_numbers, name.start, name.length, &number)) {
        map = p->maps.items[number];
    } else {
        return BAD(name.line, "affine map %.*s is not defined", shown(&name), name.start);
    }
    TRY(take_operands(p, "(", ")", map.dim_count, operands));
    if (map.symbol_count > 0 || lexer_at(&p->l, "[")) {
        TRY(take_operands(p, "[", "]", map.symbol_count, operands + map.dim_count));
    }
    return affine_apply(name.line, &map, operands, out_value);
}

static spyre_status read_assignment(parser *p)
{
    token name, operation;
    mlir_value value;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &name));
    TRY(lexer_expect(&p->l, "="));
    operation = p->l.now;
    bool extract = lexer_at(&p->l, "sdscbundle.input_arg_extract");
    bool constant = lexer_at(&p->l, "arith.constant"), sum = lexer_at(&p->l, "arith.addi");
    bool apply = lexer_at(&p->l, "affine.apply");
    if (!extract && !constant && !sum && !apply) {
        if (operation.kind != TOKEN_WORD) return lexer_unexpected(&p->l, "an operation");
        return lexer_error(operation.line, SPYRE_UNSUPPORTED, "operation %.*s is not supported",
                           shown(&operation), operation.start);
    }
    TRY(lexer_next(&p->l));
    if (extract) TRY(read_extract(p, &value));
    if (constant) TRY(read_constant(p, &value));
    if (sum) TRY(read_sum(p, &value));
    if (apply) TRY(read_apply(p, &value));
    return define(p, &name, &value);
}

// --- Statements

static spyre_status read_operations(parser *p);

static spyre_status read_loop(parser *p)
{
    token name;
    mlir_value induction = {.arg = MLIR_NO_ARG};
    int64_t first, last, step;
    uint32_t line = p->l.now.line, scope = p->values.count;
    TRY(lexer_next(&p->l));
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &name));
    TRY(lexer_expect(&p->l, "="));
    TRY(take_constant(p, &first));
    TRY(lexer_expect(&p->l, "to"));
    TRY(take_constant(p, &last));
    TRY(lexer_expect(&p->l, "step"));
    TRY(take_constant(p, &step));
    TRY(lexer_expect(&p->l, "{"));
    if (p->depth == BUNDLE_MAX_LOOPS) {
        return lexer_error(line, SPYRE_UNSUPPORTED, "more than %d nested loops", BUNDLE_MAX_LOOPS);
    }
    const int64_t bound = 1LL << 40;
    if (first < -bound || last > bound || step < 1 || step > bound || last <= first) {
        return BAD(line, "a loop from %lld to %lld by %lld", (long long)first, (long long)last,
                   (long long)step);
    }
    mlir_statement loop = {.kind = BUNDLE_LOOP, .line = line,
                           .count = (last - first + step - 1) / step};
    mlir_statement end = {.kind = BUNDLE_END, .line = line};
    induction.offset = first;
    induction.loop_stride[p->depth] = step;
    TRY(define(p, &name, &induction));
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

static spyre_status take_ids(parser *p, id_list *ids)
{
    token number;
    TRY(lexer_expect(&p->l, "["));
    while (!lexer_at(&p->l, "]")) {
        TRY(lexer_take(&p->l, TOKEN_NUMBER, "a symbol id", &number));
        if (number.number >= 0) return BAD(number.line, "a symbol id must be negative");
        TRY(VEC_PUSH(p->memory, ids, number.number));
        if (!lexer_at(&p->l, "]")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

// {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
static spyre_status take_attributes(parser *p, token *out_file, id_list *ids)
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
            return lexer_error(key.line, SPYRE_UNSUPPORTED, "attribute %.*s is not supported",
                               shown(&key), key.start);
        }
        if (!lexer_at(&p->l, "}")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

static spyre_status read_execute(parser *p)
{
    uint32_t line = p->l.now.line;
    value_list values = {0};
    id_list ids = {0};
    token file;
    TRY(lexer_next(&p->l));
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        mlir_value value;
        TRY(take_value(p, &value));
        TRY(VEC_PUSH(p->memory, &values, value));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    TRY(lexer_next(&p->l));
    TRY(take_attributes(p, &file, &ids));
    if (file.length == 0) return BAD(line, "sdsc_execute without sdsc_filename");
    if (memchr(file.start, '/', file.length) || file.start[0] == '.') {
        return BAD(line, "sdsc_filename \"%.*s\" is not a plain file name", shown(&file),
                   file.start);
    }
    if (ids.count != values.count || ids.count > MOST_SYMBOLS) {
        return BAD(line, "%u operands for %u symbol_ids", values.count, ids.count);
    }
    mlir_statement execute = {.kind = BUNDLE_EXECUTE, .line = line, .symbol_count = ids.count,
                              .ids = ids.items, .values = values.items};
    execute.file = arena_strndup(p->memory, file.start, file.length);
    TRY_ALLOC(execute.file);
    return VEC_PUSH(p->memory, &p->program->body, execute);
}

// Operations up to a '}' or a return.
static spyre_status read_operations(parser *p)
{
    while (!lexer_at(&p->l, "}") && !lexer_at(&p->l, "return")) {
        const token *now = &p->l.now;
        if (now->kind != TOKEN_WORD) return lexer_unexpected(&p->l, "an operation");
        if (lexer_at(&p->l, "scf.for")) {
            TRY(read_loop(p));
        } else if (lexer_at(&p->l, "sdscbundle.sdsc_execute")) {
            TRY(read_execute(p));
        } else if (now->start[0] == '%') {
            TRY(read_assignment(p));
        } else {
            return lexer_error(now->line, SPYRE_UNSUPPORTED, "operation %.*s is not supported",
                               shown(now), now->start);
        }
    }
    return NULL;
}

static spyre_status read_map(parser *p)
{
    token name;
    affine_map map;
    uint32_t number;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a module", &name));
    TRY(lexer_expect(&p->l, "="));
    TRY(lexer_expect(&p->l, "affine_map"));
    TRY(affine_read(&p->l, &map));
    TRY(map_bytes_intern(p->memory, &p->map_numbers, name.start, name.length, p->maps.count,
                         &number));
    if (number != p->maps.count) {
        return BAD(name.line, "%.*s is defined twice", shown(&name), name.start);
    }
    return VEC_PUSH(p->memory, &p->maps, map);
}

spyre_status mlir_read(arena *memory, const char *source, size_t length, bool pool_first,
                       mlir_program *out_program)
{
    *out_program = (mlir_program){0};
    parser p = {.memory = memory, .pool_first = pool_first, .program = out_program};
    token name;
    TRY(lexer_start(&p.l, source, length));
    while (p.l.now.kind == TOKEN_WORD && p.l.now.start[0] == '#') TRY(read_map(&p));
    TRY(lexer_expect(&p.l, "module"));
    TRY(lexer_expect(&p.l, "{"));
    TRY(lexer_expect(&p.l, "func.func"));
    TRY(lexer_take(&p.l, TOKEN_WORD, "the name of the function", &name));
    TRY(read_arguments(&p));
    TRY(lexer_expect(&p.l, "{"));
    TRY(read_operations(&p));
    TRY(lexer_expect(&p.l, "return"));
    TRY(lexer_expect(&p.l, "}"));
    TRY(lexer_expect(&p.l, "}"));
    return p.l.now.kind == TOKEN_END ? NULL : lexer_unexpected(&p.l, "the end");
}
