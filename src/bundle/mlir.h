// SPDX-License-Identifier: Apache-2.0
//
// The subset of MLIR that a bundle.mlir uses: one function of index arithmetic on the addresses of
// launch arguments, scf.for loops with constant bounds, sdsc_execute with the values of symbols.
#ifndef BUNDLE_MLIR_H
#define BUNDLE_MLIR_H

#include "bundle/model.h"

enum { MLIR_NO_ARG = -1, MLIR_OWN_MEMORY = -2 };

// An index value: a number, or the base address of a launch argument plus a number; both may
// advance with the enclosing loops. Or the value of a symbol, by itself.
typedef struct {
    uint32_t symbol;                        // 1 + its number, or 0
    int32_t arg;                            // launch argument, MLIR_NO_ARG, or MLIR_OWN_MEMORY for
                                            // what device_mem_allocate gives
    int64_t offset;
    int64_t loop_stride[BUNDLE_MAX_LOOPS];  // per iteration, 0 is the outermost loop
} mlir_value;

typedef struct {
    bundle_statement_kind kind;
    uint32_t line;
    int64_t count;                          // LOOP: the most, where it is a symbol's value / per
    uint32_t loop_symbol;                   // LOOP: 1 + its number, or 0
    int64_t per;
    const char *file;                       // EXECUTE: "sdsc_0.json"
    uint32_t symbol_count;
    const int64_t *ids;                     // negative, as they stand in the file
    const mlir_value *values;
} mlir_statement;

typedef struct {
    bool has_pool;                          // the function takes the pool as argument
    uint32_t arg_count;                     // launch arguments that the function names
    int64_t own_bytes;                      // of all device_mem_allocate
    VEC(mlir_statement) body;
    VEC(bundle_symbol) symbols;             // parameters with a granularity and a largest value
} mlir_program;

// Parses the null-terminated `source` of `length` bytes. `pool_first` counts arguments from 1 even
// when the function does not take the pool. Errors start with "bundle.mlir:3:14: ".
SPYRE_MUST_CHECK spyre_status mlir_read(arena *memory, const char *source, size_t length,
                                        bool pool_first, mlir_program *out_program);

#endif
