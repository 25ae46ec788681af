// SPDX-License-Identifier: Apache-2.0
#include "bundle/mlir_affine.h"

#include <string.h>

#include "bundle/mlir_error.h"

typedef struct {
    lexer *l;
    uint32_t count;
    token names[AFFINE_MAX_OPERANDS];
} affine_names;

static spyre_status overflow(const token *at)
{
    return mlir_error(at, SPYRE_INVALID_FORMAT, "an index beyond 64 bits");
}

spyre_status mlir_add_scaled(const token *at, const mlir_value *a, int64_t factor,
                             const mlir_value *b, mlir_value *out_value)
{
    mlir_value sum = *a;
    if (a->symbol || b->symbol)
        return mlir_error(at, SPYRE_UNSUPPORTED, "arithmetic with a size that a launch chooses");
    if (b->arg != MLIR_NO_ARG && factor != 0) {
        if (factor != 1 || a->arg != MLIR_NO_ARG) {
            return mlir_error(at, SPYRE_INVALID_FORMAT,
                               "an address can only be added once to a number");
        }
        sum.arg = b->arg;
    }
    int64_t product;
    if (__builtin_mul_overflow(factor, b->offset, &product)) return overflow(at);
    if (__builtin_add_overflow(sum.offset, product, &sum.offset)) return overflow(at);
    for (uint32_t loop = 0; loop < BUNDLE_MAX_LOOPS; loop++) {
        int64_t *stride = &sum.loop_stride[loop];
        if (__builtin_mul_overflow(factor, b->loop_stride[loop], &product)) return overflow(at);
        if (__builtin_add_overflow(*stride, product, stride)) return overflow(at);
    }
    *out_value = sum;
    return NULL;
}

static spyre_status read_names(affine_names *names, const char *open, const char *close,
                               uint32_t *out_count)
{
    lexer *l = names->l;
    *out_count = 0;
    TRY(lexer_expect(l, open));
    while (!lexer_at(l, close)) {
        if (names->count == AFFINE_MAX_OPERANDS) {
            return mlir_error(&l->now, SPYRE_UNSUPPORTED, "an affine_map of more than %d operands",
                               AFFINE_MAX_OPERANDS);
        }
        TRY(lexer_take(l, TOKEN_WORD, "the name of a dim", &names->names[names->count++]));
        ++*out_count;
        if (!lexer_at(l, close)) TRY(lexer_expect(l, ","));
    }
    return lexer_next(l);
}

static spyre_status find_name(const affine_names *names, const token *name, uint32_t *out_number)
{
    for (uint32_t i = 0; i < names->count; i++) {
        const token *candidate = &names->names[i];
        bool same = candidate->length == name->length &&
                    memcmp(candidate->start, name->start, name->length) == 0;
        *out_number = i;
        if (same) return NULL;
    }
    return mlir_error(name, SPYRE_INVALID_FORMAT, "'%.*s' is not a dim of the affine_map",
                       name->length < 40 ? (int)name->length : 40, name->start);
}

// 128, d0, 128*d0 or d0*128, with `sign` in front.
static spyre_status read_term(const affine_names *names, int64_t sign, affine_map *map)
{
    lexer *l = names->l;
    int64_t factor = sign;
    token name = {0};
    const token at = l->now;
    for (bool more = true; more;) {
        if (l->now.kind == TOKEN_NUMBER) {
            if (__builtin_mul_overflow(factor, l->now.number, &factor)) return overflow(&at);
            TRY(lexer_next(l));
        } else if (name.length == 0) {
            TRY(lexer_take(l, TOKEN_WORD, "a dim or a number", &name));
        } else {
            return mlir_error(&at, SPYRE_UNSUPPORTED, "an affine_map that is not linear");
        }
        more = lexer_at(l, "*");
        if (more) TRY(lexer_next(l));
    }
    int64_t *target = &map->constant;
    if (name.length > 0) {
        uint32_t number = 0;
        TRY(find_name(names, &name, &number));
        target = &map->factor[number];
    }
    return __builtin_add_overflow(*target, factor, target) ? overflow(&at) : NULL;
}

spyre_status affine_read(lexer *l, affine_map *out_map)
{
    affine_names names = {.l = l};
    *out_map = (affine_map){0};
    TRY(lexer_expect(l, "<"));
    TRY(read_names(&names, "(", ")", &out_map->dim_count));
    if (lexer_at(l, "[")) TRY(read_names(&names, "[", "]", &out_map->symbol_count));
    TRY(lexer_expect(l, "->"));
    TRY(lexer_expect(l, "("));
    int64_t sign = 1;
    for (bool more = true; more;) {
        TRY(read_term(&names, sign, out_map));
        // "a -4" lexes as a negative number: it is a term without a sign of its own.
        bool plus = lexer_at(l, "+"), minus = lexer_at(l, "-");
        sign = minus ? -1 : 1;
        if (plus || minus) TRY(lexer_next(l));
        more = plus || minus || (l->now.kind == TOKEN_NUMBER && l->now.number < 0);
    }
    if (lexer_at(l, ",")) {
        return mlir_error(&l->now, SPYRE_UNSUPPORTED, "an affine_map of more than one result");
    }
    TRY(lexer_expect(l, ")"));
    return lexer_expect(l, ">");
}

spyre_status affine_apply(const token *at, const affine_map *map, const mlir_value *operands,
                          mlir_value *out_value)
{
    mlir_value sum = {.arg = MLIR_NO_ARG, .offset = map->constant};
    for (uint32_t i = 0; i < map->dim_count + map->symbol_count; i++) {
        TRY(mlir_add_scaled(at, &sum, map->factor[i], &operands[i], &sum));
    }
    *out_value = sum;
    return NULL;
}
