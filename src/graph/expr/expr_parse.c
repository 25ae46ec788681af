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
    scanner *in;
    uint32_t depth;
} reader;

static expr_id read_sum(reader *r);

static expr_id read_number(reader *r)
{
    int64_t value;
    spyre_status status = scan_int(r->in, &value);
    if (!status) return expr_constant(r->table, value);
    spyre_status_free(status);
    return EXPR_NONE;
}

static expr_id read_ceildiv(reader *r)
{
    expr_id a = read_sum(r);
    if (a == EXPR_NONE || !scan_accept(r->in, ",")) return EXPR_NONE;
    expr_id b = read_sum(r);
    return b != EXPR_NONE && scan_accept(r->in, ")") ? expr_ceildiv(r->table, a, b) : EXPR_NONE;
}

static expr_id read_name(reader *r)
{
    char name[LONGEST_NAME];
    size_t length;
    const char *word = scan_peek_word(r->in, &length);
    if (length >= sizeof name) return EXPR_NONE;
    memcpy(name, word, length);
    name[length] = '\0';
    expr_id symbol = expr_find_symbol(r->table, name);
    if (symbol != EXPR_NONE) r->in->at += length;
    return symbol;
}

static expr_id read_primary(reader *r)
{
    if (r->depth == EXPR_DEEPEST) return EXPR_NONE;
    r->depth++;
    expr_id e = EXPR_NONE;
    scan_blanks(r->in);
    if (scan_accept(r->in, "ceildiv(")) {
        e = read_ceildiv(r);
    } else if (scan_accept(r->in, "(")) {
        e = read_sum(r);
        if (e != EXPR_NONE && !scan_accept(r->in, ")")) e = EXPR_NONE;
    } else if (*r->in->at == '-' || isdigit((unsigned char)*r->in->at)) {
        e = read_number(r);
    } else if (isalpha((unsigned char)*r->in->at) || *r->in->at == '_') {
        e = read_name(r);
    }
    r->depth--;
    return e;
}

static expr_id read_product(reader *r)
{
    expr_id e = read_primary(r);
    while (e != EXPR_NONE) {
        if (scan_accept(r->in, "*")) {
            e = expr_mul(r->table, e, read_primary(r));
        } else if (scan_accept(r->in, "//")) {
            e = expr_floordiv(r->table, e, read_primary(r));
        } else if (scan_accept(r->in, "%")) {
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
        if (scan_accept(r->in, "+")) {
            e = expr_add(r->table, e, read_product(r));
        } else if (scan_accept(r->in, "-")) {
            expr_id minus = expr_constant(r->table, -1);
            e = expr_add(r->table, e, expr_mul(r->table, minus, read_product(r)));
        } else {
            break;
        }
    }
    return e;
}

expr_id expr_parse(expr_table *table, scanner *in)
{
    reader r = {table, in, 0};
    return read_primary(&r);
}
