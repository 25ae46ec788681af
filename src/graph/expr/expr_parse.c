// SPDX-License-Identifier: Apache-2.0
//
// Expressions as text. Outside parentheses an expression is one number, symbol, ceildiv(a, b) or
// parenthesised sum, so that it ends where the surrounding text goes on.
#include <ctype.h>
#include <string.h>

#include "graph/expr/expr_node.h"

enum { LONGEST_NAME = 64 };

typedef struct {
    expr_table *table;
    const char *at;
    uint32_t depth;
} reader;

static expr_id read_sum(reader *r);

static void skip_blanks(reader *r)
{
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}

// Moves behind `token`, blanks before it included; stays otherwise.
static bool accept(reader *r, const char *token)
{
    const char *start = r->at;
    skip_blanks(r);
    size_t length = strlen(token);
    if (strncmp(r->at, token, length) == 0) {
        r->at += length;
        return true;
    }
    r->at = start;
    return false;
}

static expr_id read_number(reader *r)
{
    const char *start = r->at;
    bool negative = *r->at == '-';
    if (negative) r->at++;
    int64_t value = 0;
    bool overflow = !isdigit((unsigned char)*r->at);
    for (; isdigit((unsigned char)*r->at); r->at++) {
        int64_t digit = *r->at - '0';
        overflow |= __builtin_mul_overflow(value, 10, &value);
        overflow |= __builtin_sub_overflow(value, digit, &value);
    }
    overflow |= !negative && value == INT64_MIN;
    if (!overflow) return expr_constant(r->table, negative ? value : -value);
    r->at = start;
    return EXPR_NONE;
}

static expr_id read_ceildiv(reader *r)
{
    expr_id a = read_sum(r);
    if (a == EXPR_NONE || !accept(r, ",")) return EXPR_NONE;
    expr_id b = read_sum(r);
    return b != EXPR_NONE && accept(r, ")") ? expr_ceildiv(r->table, a, b) : EXPR_NONE;
}

static expr_id read_name(reader *r)
{
    char name[LONGEST_NAME];
    const char *end = r->at;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    size_t length = (size_t)(end - r->at);
    if (length >= sizeof name) return EXPR_NONE;
    memcpy(name, r->at, length);
    name[length] = '\0';
    expr_id symbol = expr_find_symbol(r->table, name);
    if (symbol != EXPR_NONE) r->at = end;
    return symbol;
}

static expr_id read_primary(reader *r)
{
    if (r->depth == EXPR_DEEPEST) return EXPR_NONE;
    r->depth++;
    expr_id e = EXPR_NONE;
    skip_blanks(r);
    if (accept(r, "ceildiv(")) {
        e = read_ceildiv(r);
    } else if (accept(r, "(")) {
        e = read_sum(r);
        if (e != EXPR_NONE && !accept(r, ")")) e = EXPR_NONE;
    } else if (*r->at == '-' || isdigit((unsigned char)*r->at)) {
        e = read_number(r);
    } else if (isalpha((unsigned char)*r->at) || *r->at == '_') {
        e = read_name(r);
    }
    r->depth--;
    return e;
}

static expr_id read_product(reader *r)
{
    expr_id e = read_primary(r);
    while (e != EXPR_NONE) {
        if (accept(r, "*")) {
            e = expr_mul(r->table, e, read_primary(r));
        } else if (accept(r, "//")) {
            e = expr_floordiv(r->table, e, read_primary(r));
        } else if (accept(r, "%")) {
            e = expr_mod(r->table, e, read_primary(r));
        } else {
            break;
        }
    }
    return e;
}

static expr_id read_sum(reader *r)
{
    expr_id e = read_product(r);
    while (e != EXPR_NONE) {
        if (accept(r, "+")) {
            e = expr_add(r->table, e, read_product(r));
        } else if (accept(r, "-")) {
            expr_id minus = expr_constant(r->table, -1);
            e = expr_add(r->table, e, expr_mul(r->table, minus, read_product(r)));
        } else {
            break;
        }
    }
    return e;
}

expr_id expr_parse(expr_table *table, const char **cursor)
{
    reader r = {table, *cursor, 0};
    expr_id e = read_primary(&r);
    *cursor = r.at;
    return e;
}
