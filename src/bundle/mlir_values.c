// SPDX-License-Identifier: Apache-2.0
//
// Values of bundle.mlir: numbers, addresses of launch arguments and what index arithmetic makes of
// them, computed while reading. Operations outside the subset are refused by name.
#include <string.h>

#include "base/integer.h"
#include "bundle/mlir_parser.h"

static const char POOL[] = "%pool_base_addr";

enum { MOST_ARGUMENTS = 4096 };
#define MOST_SIZE (1LL << 40)
#define MOST_OWN_BYTES (15LL << 30) // of a segment of 16 GiB; the rest is for programs

// --- Values by name

spyre_status mlir_define(mlir_parser *p, const token *name, const mlir_value *value)
{
    uint32_t number;
    if (name->start[0] != '%') {
        return BAD(name, "'%.*s' is no value", token_shown(name), name->start);
    }
    TRY(map_bytes_intern(p->memory, &p->value_numbers, name->start, name->length, p->values.count,
                         &number));
    if (number != p->values.count) {
        return BAD(name, "%.*s is defined twice", token_shown(name), name->start);
    }
    definition fresh = {.value = *value};
    return VEC_PUSH(p->memory, &p->values, fresh);
}

static spyre_status look_up(mlir_parser *p, const token *name, mlir_value *out_value)
{
    uint32_t number;
    if (!map_bytes_get(&p->value_numbers, name->start, name->length, &number)) {
        return BAD(name, "%.*s is not defined", token_shown(name), name->start);
    }
    if (p->values.items[number].ended) {
        return BAD(name, "%.*s is used outside of its loop", token_shown(name), name->start);
    }
    *out_value = p->values.items[number].value;
    return NULL;
}

spyre_status mlir_take_value(mlir_parser *p, mlir_value *out_value)
{
    token name;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &name));
    return look_up(p, &name, out_value);
}

// A number that does not depend on a loop or an argument.
spyre_status mlir_take_constant(mlir_parser *p, int64_t *out_number)
{
    const token at = p->l.now;
    mlir_value value, zero = {.arg = MLIR_NO_ARG};
    TRY(mlir_take_value(p, &value));
    *out_number = zero.offset = value.offset;
    if (value.symbol || memcmp(value.loop_stride, zero.loop_stride, sizeof zero.loop_stride) != 0 ||
        value.arg != MLIR_NO_ARG) {
        return BAD(&at, "a loop bound must be a constant");
    }
    return NULL;
}

static spyre_status skip_index_type(mlir_parser *p)
{
    if (!lexer_at(&p->l, ":")) return NULL;
    TRY(lexer_next(&p->l));
    return lexer_expect(&p->l, "index");
}

// --- The function's arguments

// Addresses are launch arguments in the order of the function's, whose names, %pool_base_addr or
// %arg_<i>_base_addr, may leave numbers out: torch-spyre counts a tensor that a kernel reads and
// writes twice, and hands it over once.
static spyre_status check_name(mlir_parser *p, const token *name)
{
    static const char head[] = "%arg_", tail[] = "_base_addr";
    size_t head_length = sizeof head - 1, tail_length = sizeof tail - 1;
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
        return BAD(name, "argument %.*s is neither %%pool_base_addr nor %%arg_<i>_base_addr",
                   token_shown(name), name->start);
    }
    if (number < p->next_argument)
        return BAD(name, "argument %.*s: the numbers of arguments must ascend",
                   token_shown(name), name->start);
    p->next_argument = number + 1;
    return NULL;
}

// !sdscbundle.input_arg<index, granularity=64, max_value=1024>: of an address without the numbers,
// of which those that are not there are 0.
static spyre_status read_argument_type(mlir_parser *p, int64_t *out_granularity, int64_t *out_most)
{
    *out_granularity = *out_most = 0;
    TRY(lexer_expect(&p->l, "!sdscbundle.input_arg"));
    TRY(lexer_expect(&p->l, "<"));
    TRY(lexer_expect(&p->l, "index"));
    while (lexer_at(&p->l, ",")) {
        token key, number;
        TRY(lexer_next(&p->l));
        TRY(lexer_take(&p->l, TOKEN_WORD, "granularity or max_value", &key));
        TRY(lexer_expect(&p->l, "="));
        TRY(lexer_take(&p->l, TOKEN_NUMBER, "an integer", &number));
        bool granularity = token_is(&key, "granularity");
        if (!granularity && !token_is(&key, "max_value"))
            return BAD(&key, "%.*s is neither granularity nor max_value", token_shown(&key),
                       key.start);
        if (number.number < 1 || number.number > MOST_SIZE)
            return BAD(&number, "%.*s is %lld, 1 to %lld are possible", token_shown(&key),
                       key.start, (long long)number.number, MOST_SIZE);
        *(granularity ? out_granularity : out_most) = number.number;
    }
    return lexer_expect(&p->l, ">");
}

// A size that a launch chooses. Its name is the value's, without "%" and "_base".
static spyre_status define_symbol(mlir_parser *p, const token *name, int64_t granularity,
                                  int64_t most)
{
    static const char tail[] = "_base";
    bundle_symbol symbol = {.granularity = granularity, .most = most};
    size_t length = name->length - 1, ending = sizeof tail - 1;
    if (length > ending && memcmp(name->start + name->length - ending, tail, ending) == 0)
        length -= ending;
    if (length >= sizeof symbol.name) length = sizeof symbol.name - 1;
    memcpy(symbol.name, name->start + 1, length);
    if (!granularity || !most || most % granularity)
        return BAD(name, "%.*s: max_value %lld is no multiple of granularity %lld",
                   token_shown(name), name->start, (long long)most, (long long)granularity);
    for (uint32_t s = 0; s < p->program->symbols.count; s++)
        if (strcmp(p->program->symbols.items[s].name, symbol.name) == 0)
            return BAD(name, "two sizes are named %s", symbol.name);
    if (p->program->symbols.count == BUNDLE_MAX_SYMBOLS)
        return mlir_error(name, SPYRE_UNSUPPORTED, "more than %d sizes that a launch chooses",
                          BUNDLE_MAX_SYMBOLS);
    TRY(VEC_PUSH(p->memory, &p->program->symbols, symbol));
    mlir_value value = {.symbol = p->program->symbols.count, .arg = MLIR_NO_ARG};
    return mlir_define(p, name, &value);
}

static spyre_status read_argument(mlir_parser *p)
{
    token name;
    int64_t granularity, most;
    TRY(lexer_take(&p->l, TOKEN_WORD, "an argument", &name));
    TRY(lexer_expect(&p->l, ":"));
    TRY(read_argument_type(p, &granularity, &most));
    if (granularity || most) return define_symbol(p, &name, granularity, most);
    if (token_is(&name, POOL)) {
        if (p->values.count > 0) return BAD(&name, "the pool must be the first argument");
        p->program->has_pool = true;
    }
    TRY(check_name(p, &name));
    if (p->program->arg_count == 0 && p->pool_first && !p->program->has_pool)
        p->program->arg_count = 1;
    mlir_value base = {.arg = (int32_t)p->program->arg_count++};
    return mlir_define(p, &name, &base);
}

spyre_status mlir_read_arguments(mlir_parser *p)
{
    TRY(lexer_expect(&p->l, "("));
    while (!lexer_at(&p->l, ")")) {
        TRY(read_argument(p));
        if (!lexer_at(&p->l, ")")) TRY(lexer_expect(&p->l, ","));
    }
    return lexer_next(&p->l);
}

// --- Operations with a result

// value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index; of a size also granularity
// and max_value
static spyre_status read_extract(mlir_parser *p, mlir_value *out_value)
{
    token field;
    int64_t granularity, most;
    TRY(lexer_take(&p->l, TOKEN_WORD, "value, granularity or max_value", &field));
    TRY(lexer_expect(&p->l, "from"));
    TRY(mlir_take_value(p, out_value));
    if (!token_is(&field, "value")) {
        bool step = token_is(&field, "granularity");
        if (!out_value->symbol || (!step && !token_is(&field, "max_value")))
            return BAD(&field, "the argument has no %.*s", token_shown(&field), field.start);
        const bundle_symbol *symbol = &p->program->symbols.items[out_value->symbol - 1];
        *out_value = (mlir_value){.arg = MLIR_NO_ARG,
                                  .offset = step ? symbol->granularity : symbol->most};
    }
    if (!lexer_at(&p->l, ":")) return NULL;
    TRY(lexer_next(&p->l));
    TRY(read_argument_type(p, &granularity, &most));
    TRY(lexer_expect(&p->l, "->"));
    return lexer_expect(&p->l, "index");
}

// device_mem_allocate 65536 bytes: one behind the other, also for one inside of a loop, which has
// one buffer for all rounds.
static spyre_status read_allocation(mlir_parser *p, mlir_value *out_value)
{
    token size;
    TRY(lexer_take(&p->l, TOKEN_NUMBER, "a number of bytes", &size));
    TRY(lexer_expect(&p->l, "bytes"));
    if (size.number < 1 || size.number > MOST_OWN_BYTES - p->program->own_bytes)
        return BAD(&size, "device_mem_allocate of %lld bytes beside %lld others, at most %lld "
                   "are possible", (long long)size.number, (long long)p->program->own_bytes,
                   MOST_OWN_BYTES);
    *out_value = (mlir_value){.arg = MLIR_OWN_MEMORY, .offset = p->program->own_bytes};
    p->program->own_bytes += round_up(size.number, SPYRE_STICK_BYTES);
    return skip_index_type(p);
}

static spyre_status read_constant(mlir_parser *p, mlir_value *out_value)
{
    token number;
    TRY(lexer_take(&p->l, TOKEN_NUMBER, "an integer", &number));
    *out_value = (mlir_value){.arg = MLIR_NO_ARG, .offset = number.number};
    return skip_index_type(p);
}

static spyre_status read_sum(mlir_parser *p, mlir_value *out_value)
{
    const token at = p->l.now;
    mlir_value a, b;
    TRY(mlir_take_value(p, &a));
    TRY(lexer_expect(&p->l, ","));
    TRY(mlir_take_value(p, &b));
    TRY(mlir_add_scaled(&at, &a, 1, &b, out_value));
    return skip_index_type(p);
}

static spyre_status take_operands(mlir_parser *p, const char *open, const char *close,
                                  uint32_t expected, mlir_value *out_values)
{
    const token at = p->l.now;
    uint32_t count = 0;
    TRY(lexer_expect(&p->l, open));
    while (!lexer_at(&p->l, close)) {
        if (count == expected) return BAD(&at, "affine.apply has more operands than its map");
        TRY(mlir_take_value(p, &out_values[count++]));
        if (!lexer_at(&p->l, close)) TRY(lexer_expect(&p->l, ","));
    }
    if (count < expected) return BAD(&at, "affine.apply has fewer operands than its map");
    return lexer_next(&p->l);
}

static spyre_status read_apply(mlir_parser *p, mlir_value *out_value)
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
        return BAD(&name, "affine map %.*s is not defined", token_shown(&name), name.start);
    }
    TRY(take_operands(p, "(", ")", map.dim_count, operands));
    if (map.symbol_count > 0 || lexer_at(&p->l, "[")) {
        TRY(take_operands(p, "[", "]", map.symbol_count, operands + map.dim_count));
    }
    return affine_apply(&name, &map, operands, out_value);
}

spyre_status mlir_read_assignment(mlir_parser *p)
{
    token name, operation;
    mlir_value value;
    TRY(lexer_take(&p->l, TOKEN_WORD, "a value", &name));
    TRY(lexer_expect(&p->l, "="));
    operation = p->l.now;
    bool extract = lexer_at(&p->l, "sdscbundle.input_arg_extract");
    bool constant = lexer_at(&p->l, "arith.constant"), sum = lexer_at(&p->l, "arith.addi");
    bool apply = lexer_at(&p->l, "affine.apply");
    bool allocate = lexer_at(&p->l, "sdscbundle.device_mem_allocate");
    if (!extract && !constant && !sum && !apply && !allocate) {
        if (operation.kind != TOKEN_WORD) return lexer_unexpected(&p->l, "an operation");
        return mlir_unknown_operation(&operation);
    }
    TRY(lexer_next(&p->l));
    if (extract) TRY(read_extract(p, &value));
    if (constant) TRY(read_constant(p, &value));
    if (sum) TRY(read_sum(p, &value));
    if (apply) TRY(read_apply(p, &value));
    if (allocate) TRY(read_allocation(p, &value));
    return mlir_define(p, &name, &value);
}

// --- Affine maps

spyre_status mlir_read_map(mlir_parser *p)
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
        return BAD(&name, "%.*s is defined twice", token_shown(&name), name.start);
    }
    return VEC_PUSH(p->memory, &p->maps, map);
}
