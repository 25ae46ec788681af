// SPDX-License-Identifier: Apache-2.0
//
// affine_map<(d0, d1)[s0] -> (d0 + s0, d1 floordiv 2)> and
// affine_set<(d0)[s0] : (d0 >= 0, s0 - d0 - 1 >= 0)>:
// quasi-affine expressions of dims and symbols, their values, the boxes that sets are.
// Grammar: https://mlir.llvm.org/docs/Dialects/Affine/.
#ifndef KTIR_AFFINE_H
#define KTIR_AFFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"

enum {
    KTIR_MOST_RANK = 8,
    KTIR_MOST_NAMES = 24,               // dims and symbols of one map or set
    KTIR_MOST_RESULTS = 16,             // of a map
    KTIR_MOST_CONSTRAINTS = 64,         // of a set
};

typedef enum {
    KTIR_EXPR_NUMBER,
    KTIR_EXPR_NAME,                     // dim number, or dims + symbol number
    KTIR_EXPR_ADD,
    KTIR_EXPR_MUL,
    KTIR_EXPR_MOD,                      // the rest of floordiv; the right side is positive
    KTIR_EXPR_FLOORDIV,
    KTIR_EXPR_CEILDIV,
} ktir_expr_kind;

typedef struct ktir_expr {
    ktir_expr_kind kind;
    int64_t number;                     // NUMBER, NAME
    const struct ktir_expr *left, *right;
} ktir_expr;

typedef struct {
    const char *alias;                  // "#order", or null
    uint32_t dims, symbols, count;
    const ktir_expr **results;
} ktir_map;

// Points for which every expression is at least 0, or is 0 where `equal` says so.
typedef struct {
    const char *alias;
    uint32_t dims, symbols, count;
    const ktir_expr **constraints;
    const bool *equal;
} ktir_set;

const ktir_expr *ktir_expr_new(arena *memory, ktir_expr_kind kind, int64_t number,
                               const ktir_expr *left, const ktir_expr *right);

// The value with names[dims + symbols]; false when it leaves 64 bits or divides by what is not
// positive.
bool ktir_expr_value(const ktir_expr *e, const int64_t *names, int64_t *out_value);

// e = constant + sum of factor[n] * names[n], when it is linear; factor has KTIR_MOST_NAMES.
bool ktir_expr_linear(const ktir_expr *e, int64_t *factor, int64_t *out_constant);

// The same where names lie between bounds, so that a quotient may be one number; a name of which
// least is above most may have any value.
typedef struct {
    int64_t least[KTIR_MOST_NAMES], most[KTIR_MOST_NAMES];
} ktir_bounds;
bool ktir_expr_linear_within(const ktir_expr *e, const ktir_bounds *within, int64_t *factor,
                             int64_t *out_constant);

// Whether the point names[dims + symbols] is in the set (false also when it has no value there).
bool ktir_set_holds(const ktir_set *set, const int64_t *names);

// When the set is a box for these symbols: least and most of every dim. False when it is none, or
// has no end.
bool ktir_set_box(const ktir_set *set, const int64_t *symbols, int64_t *out_least,
                  int64_t *out_most);

// Bounds of any set without symbols, as far as its linear constraints give them: every point of the
// set is between them. False where a dim has none.
bool ktir_set_bounds(const ktir_set *set, int64_t *out_least, int64_t *out_most);

// out[k] is the dim that result k is: true when the map permutes its dims.
bool ktir_map_permutation(const ktir_map *map, uint32_t *out);

// As MLIR writes them; an alias by its name when `by_name`.
void ktir_map_print(const ktir_map *map, bool by_name, text *out);
void ktir_set_print(const ktir_set *set, bool by_name, text *out);

// An expression with the given words for its names.
void ktir_expr_print(const ktir_expr *e, const char *const *words, text *out);

#endif
