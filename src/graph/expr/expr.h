// SPDX-License-Identifier: Apache-2.0
//
// Interned integer expressions for sizes and strides: constants, symbols, sums, products, floordiv,
// mod, ceildiv. Equal expressions have equal ids; building simplifies (constants fold, sums and
// products are flattened and ordered). A symbol has a name, a range and a granularity.
#ifndef GRAPH_EXPR_H
#define GRAPH_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/scanner.h"
#include "base/text.h"

typedef uint32_t expr_id;
typedef struct expr_table expr_table;

// Lives in `memory`; null when memory is short.
expr_table *expr_table_create(arena *memory);

// Builders; EXPR_NONE when memory is short, a constant overflows int64, a divisor is 0, the result
// has more than 64 terms, 16 factors in one or 32 levels, a symbol's range is empty or differs from
// that of an earlier symbol of the name, or when an operand is EXPR_NONE. floordiv and mod round
// down, as Python's // and % do.
#define EXPR_NONE UINT32_MAX
expr_id expr_constant(expr_table *table, int64_t value);
expr_id expr_symbol(expr_table *table, const char *name, int64_t least, int64_t most,
                    int64_t granularity);
expr_id expr_add(expr_table *table, expr_id a, expr_id b);
expr_id expr_mul(expr_table *table, expr_id a, expr_id b);
expr_id expr_floordiv(expr_table *table, expr_id a, expr_id b);
expr_id expr_ceildiv(expr_table *table, expr_id a, expr_id b);
expr_id expr_mod(expr_table *table, expr_id a, expr_id b);

// True once a builder has given EXPR_NONE because memory was short.
bool expr_short_of_memory(const expr_table *table);

// Symbols in order of creation. expr_find_symbol gives EXPR_NONE for a name that has none.
typedef struct {
    const char *name;
    int64_t least, most;
    int64_t granularity; // every value is a multiple of it
} expr_symbol_info;
uint32_t expr_symbol_count(const expr_table *table);
const expr_symbol_info *expr_symbol_at(const expr_table *table, uint32_t index);
expr_id expr_find_symbol(const expr_table *table, const char *name);

// The same expression in another table, its symbols with it.
expr_id expr_copy(expr_table *to, const expr_table *from, expr_id e);

// True and the value when the expression has no symbol.
bool expr_is_constant(const expr_table *table, expr_id e, int64_t *out_value);

// Prints as the text form writes it: 4096, s0, (s0 + 1), (B*S), (s0 // 2).
void expr_print(const expr_table *table, expr_id e, text *out);

// Reads the expression that comes next; EXPR_NONE on bad text and on names that are no symbols of
// the table, with the scanner at the offending character.
expr_id expr_parse(expr_table *table, scanner *in);

#endif
