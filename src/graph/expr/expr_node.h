// SPDX-License-Identifier: Apache-2.0
//
// How a table keeps its expressions, for the files expr*.c.
#ifndef GRAPH_EXPR_NODE_H
#define GRAPH_EXPR_NODE_H

#include "base/map.h"
#include "base/vec.h"
#include "graph/expr/expr.h"

enum { EXPR_MOST_TERMS = 64, EXPR_DEEPEST = 32, EXPR_UNIT = 0 }; // expression 0 is the constant 1

typedef enum {
    KIND_CONSTANT,
    KIND_SYMBOL,
    KIND_FLOORDIV,
    KIND_CEILDIV,
    KIND_MOD,
    KIND_PRODUCT,
    KIND_SUM
} expr_kind;

// PRODUCT: `operands` are two or more factors. SUM: value + sum of coefficients[i] * operands[i].
// Divisions: operands a, b. SYMBOL: `value` is the index.
typedef struct {
    expr_kind kind;
    uint32_t count;
    uint32_t depth;                     // of nested expressions, of 1 without operands
    int64_t value;
    const expr_id *operands;
    const int64_t *coefficients;
} expr_node;

struct expr_table {
    arena *memory;
    VEC(expr_node) nodes;
    VEC(expr_symbol_info) symbols;
    VEC(expr_id) symbol_ids; // parallel to symbols
    map_bytes ids;
    bool no_memory;          // sticky
};

// The id of a node, whose arrays are copied when it is new and whose depth is found. EXPR_NONE when
// memory is short or it is nested deeper than EXPR_DEEPEST: its text, which has parentheses for
// every level, is then one that can be read.
expr_id expr_intern(expr_table *table, expr_node node);

// The factors of a term: those of a product, or the expression itself.
uint32_t expr_factors(const expr_table *table, const expr_id *e, const expr_id **out_factors);

#endif
