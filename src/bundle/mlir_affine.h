// SPDX-License-Identifier: Apache-2.0
//
// affine_map<(d0, d1)[s0] -> (s0 + 128*d0 + 4*d1)>: one linear result of dims and symbols.
#ifndef BUNDLE_MLIR_AFFINE_H
#define BUNDLE_MLIR_AFFINE_H

#include "bundle/mlir.h"
#include "mlir/lexer.h"

enum { AFFINE_MAX_OPERANDS = 8 };

typedef struct {
    uint32_t dim_count, symbol_count;
    int64_t constant;
    int64_t factor[AFFINE_MAX_OPERANDS];    // dims, then symbols
} affine_map;

// Parses from behind the word affine_map to behind its '>'.
SPYRE_MUST_CHECK spyre_status affine_read(lexer *l, affine_map *out_map);

// constant + sum of factor[i] * operands[i], an error when it is no index value.
SPYRE_MUST_CHECK spyre_status affine_apply(const token *at, const affine_map *map,
                                           const mlir_value *operands, mlir_value *out_value);

// a + factor * b.
SPYRE_MUST_CHECK spyre_status mlir_add_scaled(const token *at, const mlir_value *a, int64_t factor,
                                              const mlir_value *b, mlir_value *out_value);

#endif
