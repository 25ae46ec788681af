// SPDX-License-Identifier: Apache-2.0
#include "ktir/ir/affine.h"

#include <stdio.h>
#include <string.h>

#include "base/integer.h"

const ktir_expr *ktir_expr_new(arena *memory, ktir_expr_kind kind, int64_t number,
                               const ktir_expr *left, const ktir_expr *right)
{
    ktir_expr *e = ARENA_NEW(memory, ktir_expr, 1);
    if (e) *e = (ktir_expr){.kind = kind, .number = number, .left = left, .right = right};
    return e;
}

bool ktir_expr_value(const ktir_expr *e, const int64_t *names, int64_t *out_value)
{
    if (e->kind == KTIR_EXPR_NUMBER || e->kind == KTIR_EXPR_NAME) {
        *out_value = e->kind == KTIR_EXPR_NAME ? names[e->number] : e->number;
        return true;
    }
    int64_t a, b;
    if (!ktir_expr_value(e->left, names, &a) || !ktir_expr_value(e->right, names, &b)) return false;
    if (e->kind == KTIR_EXPR_ADD) return !__builtin_add_overflow(a, b, out_value);
    if (e->kind == KTIR_EXPR_MUL) return !__builtin_mul_overflow(a, b, out_value);
    if (b < 1) return false;
    int64_t quotient = divide_down(a, b), rest = a - quotient * b;
    *out_value = e->kind == KTIR_EXPR_MOD ? rest
                 : e->kind == KTIR_EXPR_FLOORDIV ? quotient : quotient + (rest != 0);
    return true;
}

// The values of a linear expression between the bounds of its names.
static bool range_of(const int64_t *factor, int64_t constant, const ktir_bounds *within,
                     int64_t *least, int64_t *most)
{
    *least = *most = constant;
    for (uint32_t n = 0; n < KTIR_MOST_NAMES; n++) {
        int64_t low, high;
        if (!factor[n]) continue;
        if (within->least[n] > within->most[n] ||
            __builtin_mul_overflow(factor[n], within->least[n], &low) ||
            __builtin_mul_overflow(factor[n], within->most[n], &high) ||
            __builtin_add_overflow(*least, low < high ? low : high, least) ||
            __builtin_add_overflow(*most, low < high ? high : low, most))
            return false;
    }
    return true;
}

static bool add_linear(const ktir_expr *e, const ktir_bounds *within, int64_t scale,
                       int64_t *factor, int64_t *constant);

// A quotient that is the same for all values of its names, or what is left over.
static bool add_quotient(const ktir_expr *e, const ktir_bounds *within, int64_t scale,
                         int64_t *factor, int64_t *constant)
{
    int64_t of[KTIR_MOST_NAMES] = {0}, rest = 0, least, most, by = e->right->number;
    if (!within || e->right->kind != KTIR_EXPR_NUMBER || by < 1 || by > INT32_MAX ||
        !add_linear(e->left, within, 1, of, &rest) || !range_of(of, rest, within, &least, &most))
        return false;
    bool up = e->kind == KTIR_EXPR_CEILDIV;
    if (up && (__builtin_add_overflow(least, by - 1, &least) ||
               __builtin_add_overflow(most, by - 1, &most)))
        return false;
    const ktir_expr quotient = {.kind = KTIR_EXPR_NUMBER, .number = divide_down(least, by)};
    if (quotient.number != divide_down(most, by)) return false;
    if (e->kind != KTIR_EXPR_MOD) return add_linear(&quotient, within, scale, factor, constant);
    int64_t taken;
    return add_linear(e->left, within, scale, factor, constant) &&
           !__builtin_mul_overflow(scale, -by, &taken) &&
           add_linear(&quotient, within, taken, factor, constant);
}

// Adds scale * e to factor and constant.
static bool add_linear(const ktir_expr *e, const ktir_bounds *within, int64_t scale,
                       int64_t *factor, int64_t *constant)
{
    int64_t product;
    switch (e->kind) {
    case KTIR_EXPR_NUMBER:
        return !__builtin_mul_overflow(scale, e->number, &product) &&
               !__builtin_add_overflow(*constant, product, constant);
    case KTIR_EXPR_NAME:
        return !__builtin_add_overflow(factor[e->number], scale, &factor[e->number]);
    case KTIR_EXPR_ADD:
        return add_linear(e->left, within, scale, factor, constant) &&
               add_linear(e->right, within, scale, factor, constant);
    case KTIR_EXPR_MUL: {
        bool left = e->left->kind == KTIR_EXPR_NUMBER;
        const ktir_expr *number = left ? e->left : e->right, *rest = left ? e->right : e->left;
        return number->kind == KTIR_EXPR_NUMBER &&
               !__builtin_mul_overflow(scale, number->number, &product) &&
               add_linear(rest, within, product, factor, constant);
    }
    case KTIR_EXPR_MOD: case KTIR_EXPR_FLOORDIV: case KTIR_EXPR_CEILDIV:
        return add_quotient(e, within, scale, factor, constant);
    }
    return false;
}

bool ktir_expr_linear(const ktir_expr *e, int64_t *factor, int64_t *out_constant)
{
    return ktir_expr_linear_within(e, NULL, factor, out_constant);
}

bool ktir_expr_linear_within(const ktir_expr *e, const ktir_bounds *within, int64_t *factor,
                             int64_t *out_constant)
{
    memset(factor, 0, KTIR_MOST_NAMES * sizeof *factor);
    *out_constant = 0;
    return add_linear(e, within, 1, factor, out_constant);
}

bool ktir_set_holds(const ktir_set *set, const int64_t *names)
{
    for (uint32_t c = 0; c < set->count; c++) {
        int64_t value;
        if (!ktir_expr_value(set->constraints[c], names, &value)) return false;
        if (set->equal[c] ? value != 0 : value < 0) return false;
    }
    return true;
}

// Folds one constraint factor * dim + rest >= 0 (or == 0) into the bounds of the dim.
static void bound(int64_t factor, int64_t rest, bool equal, int64_t *least, int64_t *most)
{
    int64_t sign = factor < 0 ? -1 : 1;
    int64_t low = -divide_down(rest, factor * sign);     // of sign * dim
    if (sign > 0) {
        if (low > *least) *least = low;
    } else if (-low < *most) {
        *most = -low;
    }
    if (!equal) return;
    int64_t high = divide_down(-rest, factor * sign);    // rest + |factor| x <= 0
    if (sign > 0) {
        if (high < *most) *most = high;
    } else if (-high > *least) {
        *least = -high;
    }
}

enum { MOST_BOUND = 48 };               // bits of bounds that are taken for numbers

bool ktir_set_box(const ktir_set *set, const int64_t *symbols, int64_t *out_least,
                  int64_t *out_most)
{
    const int64_t far = (int64_t)1 << MOST_BOUND;
    for (uint32_t d = 0; d < set->dims; d++) {
        out_least[d] = -far;
        out_most[d] = far;
    }
    for (uint32_t c = 0; c < set->count; c++) {
        int64_t factor[KTIR_MOST_NAMES], rest, product;
        uint32_t dim = set->dims;
        if (!ktir_expr_linear(set->constraints[c], factor, &rest)) return false;
        for (uint32_t s = 0; s < set->symbols; s++)
            if (__builtin_mul_overflow(factor[set->dims + s], symbols[s], &product) ||
                __builtin_add_overflow(rest, product, &rest))
                return false;
        for (uint32_t d = 0; d < set->dims; d++) {
            if (!factor[d]) continue;
            if (dim < set->dims) return false;
            dim = d;
        }
        if (rest < -far || rest > far) return false;
        if (dim < set->dims) {
            if (factor[dim] < -far || factor[dim] > far) return false;
            bound(factor[dim], rest, set->equal[c], &out_least[dim], &out_most[dim]);
        } else if (set->equal[c] ? rest != 0 : rest < 0) {
            for (uint32_t d = 0; d < set->dims; d++) out_most[d] = out_least[d] - 1;
            return true;
        }
    }
    for (uint32_t d = 0; d < set->dims; d++)
        if (out_least[d] == -far || out_most[d] == far) return false;
    return true;
}

// A sum of dims times factors, each of them from `least` to `most`, and `rest`.
typedef struct {
    uint32_t dims;
    int64_t factor[KTIR_MOST_NAMES], rest;
    const int64_t *least, *most;
} bounded_sum;

// The most that sign * (the sum without dim `dim`) can be; false where it has no end.
static bool others_at_most(const bounded_sum *s, int64_t sign, uint32_t dim, int64_t *out)
{
    const int64_t far = (int64_t)1 << MOST_BOUND;
    *out = sign * s->rest;
    for (uint32_t d = 0; d < s->dims; d++) {
        const int64_t factor = s->factor[d] * sign, end = factor > 0 ? s->most[d] : s->least[d];
        int64_t product;
        if (d == dim || !factor) continue;
        if (end == far || end == -far || __builtin_mul_overflow(factor, end, &product) ||
            __builtin_add_overflow(*out, product, out))
            return false;
    }
    return *out >= -far && *out <= far;
}

bool ktir_set_bounds(const ktir_set *set, int64_t *out_least, int64_t *out_most)
{
    const int64_t far = (int64_t)1 << MOST_BOUND;
    bounded_sum s = {.dims = set->dims, .least = out_least, .most = out_most};
    int64_t most;
    for (uint32_t d = 0; d < set->dims; d++) {
        out_least[d] = -far;
        out_most[d] = far;
    }
    for (uint32_t n = 0; n < (set->dims + 1) * set->count; n++) {
        uint32_t c = n % set->count;
        if (!ktir_expr_linear(set->constraints[c], s.factor, &s.rest) || s.rest < -far ||
            s.rest > far)
            continue;
        for (uint32_t d = 0; d < set->dims; d++) {
            const int64_t factor = s.factor[d];
            if (!factor || factor < -far || factor > far) continue;
            if (others_at_most(&s, 1, d, &most))
                bound(factor, most, false, &out_least[d], &out_most[d]);
            if (set->equal[c] && others_at_most(&s, -1, d, &most))
                bound(-factor, most, false, &out_least[d], &out_most[d]);
        }
    }
    for (uint32_t d = 0; d < set->dims; d++)
        if (out_least[d] == -far || out_most[d] == far) return false;
    return true;
}

bool ktir_map_permutation(const ktir_map *map, uint32_t *out)
{
    uint32_t seen = 0;
    if (map->count != map->dims || map->dims > KTIR_MOST_RANK) return false;
    for (uint32_t k = 0; k < map->count; k++) {
        const ktir_expr *e = map->results[k];
        if (e->kind != KTIR_EXPR_NAME || e->number >= map->dims || seen >> e->number & 1)
            return false;
        seen |= 1u << e->number;
        out[k] = (uint32_t)e->number;
    }
    return true;
}

// --- Text

// How tightly it binds: a sum, a product, an operand of a product.
enum { LOOSE, TIGHT, ATOM };

static void print_at(const ktir_expr *e, int binding, const char *const *words, text *out)
{
    static const char *const signs[] = {[KTIR_EXPR_MUL] = " * ", [KTIR_EXPR_MOD] = " mod ",
                                        [KTIR_EXPR_FLOORDIV] = " floordiv ",
                                        [KTIR_EXPR_CEILDIV] = " ceildiv "};
    if (e->kind == KTIR_EXPR_NUMBER) {
        text_printf(out, "%lld", (long long)e->number);
        return;
    }
    if (e->kind == KTIR_EXPR_NAME) {
        text_append(out, words[e->number]);
        return;
    }
    bool sum = e->kind == KTIR_EXPR_ADD, brackets = binding > (sum ? LOOSE : TIGHT);
    if (brackets) text_append(out, "(");
    if (sum) {
        bool minus = e->right->kind == KTIR_EXPR_MUL && e->right->left->kind == KTIR_EXPR_NUMBER &&
                     e->right->left->number == -1;
        bool negative = e->right->kind == KTIR_EXPR_NUMBER && e->right->number < 0 &&
                        e->right->number != INT64_MIN;
        print_at(e->left, LOOSE, words, out);
        text_append(out, minus || negative ? " - " : " + ");
        if (minus) print_at(e->right->right, ATOM, words, out);
        else if (negative) text_printf(out, "%lld", (long long)-e->right->number);
        else print_at(e->right, TIGHT, words, out);
    } else if (e->kind == KTIR_EXPR_MUL && e->left->kind == KTIR_EXPR_NUMBER &&
               e->left->number == -1) {
        text_append(out, "-");
        print_at(e->right, ATOM, words, out);
    } else {
        print_at(e->left, ATOM, words, out);
        text_append(out, signs[e->kind]);
        print_at(e->right, ATOM, words, out);
    }
    if (brackets) text_append(out, ")");
}

void ktir_expr_print(const ktir_expr *e, const char *const *words, text *out)
{
    print_at(e, LOOSE, words, out);
}

typedef struct {
    char letters[KTIR_MOST_NAMES][8];
    const char *words[KTIR_MOST_NAMES];
} plain_names;

static void print_names(uint32_t dims, uint32_t symbols, plain_names *names, text *out)
{
    for (uint32_t n = 0; n < dims + symbols; n++) {
        snprintf(names->letters[n], sizeof names->letters[n], "%c%u", n < dims ? 'd' : 's',
                 (n < dims ? n : n - dims) % 1000);
        names->words[n] = names->letters[n];
    }
    text_append(out, "(");
    for (uint32_t n = 0; n < dims; n++) text_printf(out, "%s%s", n ? ", " : "", names->words[n]);
    text_append(out, ")");
    if (!symbols) return;
    text_append(out, "[");
    for (uint32_t n = 0; n < symbols; n++)
        text_printf(out, "%s%s", n ? ", " : "", names->words[dims + n]);
    text_append(out, "]");
}

void ktir_map_print(const ktir_map *map, bool by_name, text *out)
{
    plain_names names;
    if (by_name && map->alias) {
        text_append(out, map->alias);
        return;
    }
    text_append(out, "affine_map<");
    print_names(map->dims, map->symbols, &names, out);
    text_append(out, " -> (");
    for (uint32_t r = 0; r < map->count; r++) {
        if (r) text_append(out, ", ");
        ktir_expr_print(map->results[r], names.words, out);
    }
    text_append(out, ")>");
}

void ktir_set_print(const ktir_set *set, bool by_name, text *out)
{
    plain_names names;
    if (by_name && set->alias) {
        text_append(out, set->alias);
        return;
    }
    text_append(out, "affine_set<");
    print_names(set->dims, set->symbols, &names, out);
    text_append(out, " : (");
    for (uint32_t c = 0; c < set->count; c++) {
        if (c) text_append(out, ", ");
        ktir_expr_print(set->constraints[c], names.words, out);
        text_append(out, set->equal[c] ? " == 0" : " >= 0");
    }
    text_append(out, ")>");
}
