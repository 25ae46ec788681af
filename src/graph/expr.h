// SPDX-License-Identifier: Apache-2.0
//
// Interned integer expressions for sizes and strides: constants, symbols, sums, products, floordiv,
// mod, ceildiv. Equal expressions have equal ids; building simplifies (constants fold, sums and
// products are flattened and ordered). A symbol has a name, a range and a granularity.
#ifndef GRAPH_EXPR_H
#define GRAPH_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

typedef uint32_t expr_id;
typedef struct expr_table expr_table;

// Lives in `memory`; null when memory is short.
expr_table *expr_table_create(arena *memory);

// Builders; EXPR_NONE when memory is short or a constant overflows int64 or a divisor is 0.
#define EXPR_NONE UINT32_MAX
expr_id expr_constant(expr_table *table, int64_t value);
expr_id expr_symbol(expr_table *table, const char *name, int64_t least, int64_t most,
                    int64_t granularity);
expr_id expr_add(expr_table *table, expr_id a, expr_id b);
expr_id expr_mul(expr_table *table, expr_id a, expr_id b);
expr_id expr_floordiv(expr_table *table, expr_id a, expr_id b);
expr_id expr_ceildiv(expr_table *table, expr_id a, expr_id b);
expr_id expr_mod(expr_table *table, expr_id a, expr_id b);

// True and the value when the expression has no symbol.
bool expr_is_constant(const expr_table *table, expr_id e, int64_t *out_value);

// Prints as the text form writes it: 4096, s0, (s0 + 1), (B*S), (s0 // 2).
void expr_print(const expr_table *table, expr_id e, text *out);

// Reads one expression at *cursor and moves the cursor behind it; EXPR_NONE on bad text.
expr_id expr_parse(expr_table *table, const char **cursor);

#endif
