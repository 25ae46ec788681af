// SPDX-License-Identifier: Apache-2.0
//
// Sums, products and divisions. An expression is kept as a sum of products with integer
// coefficients, ordered by structure and not by id, so that equal expressions meet in one id
// whatever the order they were built in, and print the same after a parse.
#include "graph/expr/expr_node.h"

#include <string.h>

enum { MOST_FACTORS = 16 };

// A sum being worked on. `overflow` is sticky.
typedef struct {
    int64_t constant;
    uint32_t count;
    expr_id base[EXPR_MOST_TERMS];
    int64_t coefficient[EXPR_MOST_TERMS];
    bool overflow;
} sum;

// A total order by structure: more factors first, then symbols by order of creation, then
// divisions. Zero only for equal ids.
static int compare(const expr_table *table, expr_id a, expr_id b)
{
    if (a == b) return 0;
    const expr_node *x = &table->nodes.items[a], *y = &table->nodes.items[b];
    const expr_id *of_x, *of_y;
    uint32_t x_factors = expr_factors(table, &a, &of_x), y_factors = expr_factors(table, &b, &of_y);
    if (x_factors != y_factors) return x_factors > y_factors ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    for (uint32_t i = 0; i < x->count; i++) {
        int order = compare(table, x->operands[i], y->operands[i]);
        if (order) return order;
        if (x->coefficients && x->coefficients[i] != y->coefficients[i]) {
            return x->coefficients[i] < y->coefficients[i] ? -1 : 1;
        }
    }
    return 0;
}

// Adds coefficient * base, keeping the terms ordered.
static void sum_add(const expr_table *table, sum *s, expr_id base, int64_t coefficient)
{
    if (coefficient == 0) return;
    uint32_t at = 0;
    int order = 1;
    while (at < s->count && (order = compare(table, s->base[at], base)) < 0) at++;
    if (at < s->count && order == 0) {
        s->overflow |= __builtin_add_overflow(s->coefficient[at], coefficient, &s->coefficient[at]);
        if (s->coefficient[at]) return;
        s->count--;
        memmove(&s->base[at], &s->base[at + 1], (s->count - at) * sizeof s->base[0]);
        memmove(&s->coefficient[at], &s->coefficient[at + 1],
                (s->count - at) * sizeof s->coefficient[0]);
        return;
    }
    if (s->count == EXPR_MOST_TERMS) {
        s->overflow = true;
        return;
    }
    memmove(&s->base[at + 1], &s->base[at], (s->count - at) * sizeof s->base[0]);
    memmove(&s->coefficient[at + 1], &s->coefficient[at],
            (s->count - at) * sizeof s->coefficient[0]);
    s->base[at] = base;
    s->coefficient[at] = coefficient;
    s->count++;
}

// Adds an expression.
static void sum_add_expr(const expr_table *table, sum *s, expr_id e)
{
    const expr_node *node = &table->nodes.items[e];
    if (node->kind == KIND_CONSTANT || node->kind == KIND_SUM) {
        s->overflow |= __builtin_add_overflow(s->constant, node->value, &s->constant);
    } else {
        sum_add(table, s, e, 1);
    }
    if (node->kind != KIND_SUM) return;
    for (uint32_t i = 0; i < node->count; i++) {
        sum_add(table, s, node->operands[i], node->coefficients[i]);
    }
}

static expr_id sum_finish(expr_table *table, const sum *s)
{
    if (s->overflow) return EXPR_NONE;
    if (s->count == 0) return expr_constant(table, s->constant);
    if (s->count == 1 && s->constant == 0 && s->coefficient[0] == 1) return s->base[0];
    return expr_intern(table, (expr_node){.kind = KIND_SUM,
                                     .count = s->count,
                                     .value = s->constant,
                                     .operands = s->base,
                                     .coefficients = s->coefficient});
}

expr_id expr_add(expr_table *table, expr_id a, expr_id b)
{
    if (a == EXPR_NONE || b == EXPR_NONE) return EXPR_NONE;
    sum s = {0};
    sum_add_expr(table, &s, a);
    sum_add_expr(table, &s, b);
    return sum_finish(table, &s);
}

// The product of two terms that are no sums.
static expr_id multiply_terms(expr_table *table, expr_id a, expr_id b)
{
    if (a == EXPR_UNIT) return b;
    if (b == EXPR_UNIT) return a;
    const expr_id *left, *right;
    uint32_t left_count = expr_factors(table, &a, &left);
    uint32_t right_count = expr_factors(table, &b, &right);
    expr_id merged[MOST_FACTORS];
    uint32_t count = left_count + right_count, i = 0, j = 0;
    if (count > MOST_FACTORS) return EXPR_NONE;
    for (uint32_t k = 0; k < count; k++) {
        bool take_left =
            j == right_count || (i < left_count && compare(table, left[i], right[j]) <= 0);
        merged[k] = take_left ? left[i++] : right[j++];
    }
    return expr_intern(table,
                       (expr_node){.kind = KIND_PRODUCT, .count = count, .operands = merged});
}

expr_id expr_mul(expr_table *table, expr_id a, expr_id b)
{
    if (a == EXPR_NONE || b == EXPR_NONE) return EXPR_NONE;
    sum left = {0}, right = {0}, product = {0};
    sum_add_expr(table, &left, a);
    sum_add_expr(table, &right, b);
    // Index `count` stands for the constant part.
    for (uint32_t i = 0; i <= left.count; i++) {
        for (uint32_t j = 0; j <= right.count; j++) {
            int64_t x = i < left.count ? left.coefficient[i] : left.constant;
            int64_t y = j < right.count ? right.coefficient[j] : right.constant, coefficient;
            if (x == 0 || y == 0) continue;
            if (__builtin_mul_overflow(x, y, &coefficient)) return EXPR_NONE;
            expr_id base = multiply_terms(table, i < left.count ? left.base[i] : EXPR_UNIT,
                                          j < right.count ? right.base[j] : EXPR_UNIT);
            if (base == EXPR_NONE) return EXPR_NONE;
            if (base == EXPR_UNIT) {
                product.overflow |=
                    __builtin_add_overflow(product.constant, coefficient, &product.constant);
            } else {
                sum_add(table, &product, base, coefficient);
            }
        }
    }
    return sum_finish(table, &product);
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// Greatest known divisor of a term without its coefficient: the granularities of its symbols.
static int64_t term_granularity(const expr_table *table, expr_id base)
{
    const expr_id *factors;
    uint32_t count = expr_factors(table, &base, &factors);
    int64_t product = 1, larger;
    for (uint32_t i = 0; i < count; i++) {
        const expr_node *node = &table->nodes.items[factors[i]];
        if (node->kind != KIND_SYMBOL) continue;
        int64_t granularity = table->symbols.items[node->value].granularity;
        if (__builtin_mul_overflow(product, granularity, &larger)) return product;
        product = larger;
    }
    return product;
}

// Divides every coefficient by a constant; false when one is not a multiple.
static bool divide_exactly(sum *s, int64_t divisor)
{
    if (divisor == -1) return false;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->coefficient[i] % divisor != 0) return false;
    }
    if (s->constant % divisor != 0) return false;
    for (uint32_t i = 0; i < s->count; i++) s->coefficient[i] /= divisor;
    s->constant /= divisor;
    return true;
}

static bool is_positive_symbol(const expr_table *table, expr_id e)
{
    const expr_node *node = &table->nodes.items[e];
    return node->kind == KIND_SYMBOL && table->symbols.items[node->value].least > 0;
}

static expr_id divide(expr_table *table, expr_kind kind, expr_id a, expr_id b)
{
    if (a == EXPR_NONE || b == EXPR_NONE) return EXPR_NONE;
    int64_t dividend, divisor;
    if (expr_is_constant(table, b, &divisor)) {
        if (divisor == 0) return EXPR_NONE;
        if (divisor == 1) return a;
        if (expr_is_constant(table, a, &dividend)) {
            if (divisor == -1 && dividend == INT64_MIN) return EXPR_NONE;
            int64_t quotient = floor_divide(dividend, divisor);
            bool up = kind == KIND_CEILDIV && dividend % divisor != 0;
            return expr_constant(table, quotient + (up ? 1 : 0));
        }
        if (divisor == -1) return expr_mul(table, a, b);    // refuses what has no negation
        sum s = {0};
        sum_add_expr(table, &s, a);
        if (divide_exactly(&s, divisor)) return sum_finish(table, &s);
    }
    if (a == b && is_positive_symbol(table, a)) return EXPR_UNIT;
    expr_id operands[2] = {a, b};
    return expr_intern(table, (expr_node){.kind = kind, .count = 2, .operands = operands});
}

expr_id expr_floordiv(expr_table *table, expr_id a, expr_id b)
{
    return divide(table, KIND_FLOORDIV, a, b);
}

expr_id expr_ceildiv(expr_table *table, expr_id a, expr_id b)
{
    return divide(table, KIND_CEILDIV, a, b);
}

// Drops what is a multiple of the divisor: (4*s + 3) mod 2 is 1.
static expr_id reduce_modulo(expr_table *table, expr_id a, int64_t divisor)
{
    sum whole = {0}, rest = {0};
    sum_add_expr(table, &whole, a);
    for (uint32_t i = 0; i < whole.count; i++) {
        int64_t multiple;
        int64_t granularity = term_granularity(table, whole.base[i]);
        bool overflow = __builtin_mul_overflow(whole.coefficient[i], granularity, &multiple);
        if (overflow || multiple % divisor != 0) {
            sum_add(table, &rest, whole.base[i], whole.coefficient[i]);
        }
    }
    rest.constant = whole.constant % divisor;
    if (rest.constant < 0) rest.constant += divisor;
    return sum_finish(table, &rest);
}

expr_id expr_mod(expr_table *table, expr_id a, expr_id b)
{
    if (a == EXPR_NONE || b == EXPR_NONE) return EXPR_NONE;
    int64_t dividend, divisor;
    if (expr_is_constant(table, b, &divisor)) {
        if (divisor == 0) return EXPR_NONE;
        if (divisor == -1) return expr_constant(table, 0);
        if (divisor > 0) a = reduce_modulo(table, a, divisor);
        if (a == EXPR_NONE) return EXPR_NONE;
        if (expr_is_constant(table, a, &dividend)) {
            if (divisor > 0) return a;
            int64_t rest = dividend % divisor;
            return expr_constant(table, rest > 0 ? rest + divisor : rest);
        }
    }
    if (a == b && is_positive_symbol(table, a)) return expr_constant(table, 0);
    expr_id operands[2] = {a, b};
    return expr_intern(table, (expr_node){.kind = KIND_MOD, .count = 2, .operands = operands});
}

static expr_id copy_symbol(expr_table *to, const expr_table *from, const expr_node *node)
{
    const expr_symbol_info *s = &from->symbols.items[node->value];
    return expr_symbol(to, s->name, s->least, s->most, s->granularity);
}

expr_id expr_copy(expr_table *to, const expr_table *from, expr_id e)
{
    if (e >= from->nodes.count) return EXPR_NONE;
    const expr_node *node = &from->nodes.items[e];
    bool is_product = node->kind == KIND_PRODUCT;
    if (node->kind == KIND_CONSTANT) return expr_constant(to, node->value);
    if (node->kind == KIND_SYMBOL) return copy_symbol(to, from, node);
    if (node->kind != KIND_SUM && !is_product) {
        expr_id operands[2] = {expr_copy(to, from, node->operands[0]),
                               expr_copy(to, from, node->operands[1])};
        if (node->kind == KIND_MOD) return expr_mod(to, operands[0], operands[1]);
        return divide(to, node->kind, operands[0], operands[1]);
    }
    expr_id result = expr_constant(to, is_product ? 1 : node->value);
    for (uint32_t i = 0; i < node->count; i++) {
        expr_id term = expr_copy(to, from, node->operands[i]);
        if (is_product) {
            result = expr_mul(to, result, term);
        } else {
            term = expr_mul(to, term, expr_constant(to, node->coefficients[i]));
            result = expr_add(to, result, term);
        }
    }
    return result;
}
