// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the parser of bundle.mlir share; mlir.h is for others. Every function consumes
// what it names from the lexer; errors are the lexer's, with the place.
#ifndef BUNDLE_MLIR_PARSER_H
#define BUNDLE_MLIR_PARSER_H

#include "base/map.h"
#include "bundle/mlir.h"
#include "bundle/mlir_affine.h"
#include "bundle/mlir_error.h"
#include "mlir/lexer.h"

#define BAD(at, ...) mlir_error((at), SPYRE_INVALID_FORMAT, __VA_ARGS__)

typedef struct {
    mlir_value value;
    bool ended; // its loop has ended
} definition;

typedef struct {
    lexer l;
    arena *memory;
    bool pool_first;
    int64_t next_argument;      // the least number that the next %arg_<i>_base_addr may have
    mlir_program *program;
    map_bytes value_numbers;
    VEC(definition) values;
    map_bytes map_numbers;
    VEC(affine_map) maps;
    uint32_t depth;
} mlir_parser;

// Names `value`; the name is a new one.
SPYRE_MUST_CHECK spyre_status mlir_define(mlir_parser *p, const token *name,
                                          const mlir_value *value);

// The value of a name that is defined and whose loop has not ended.
SPYRE_MUST_CHECK spyre_status mlir_take_value(mlir_parser *p, mlir_value *out_value);

// A value that depends on no loop and no argument.
SPYRE_MUST_CHECK spyre_status mlir_take_constant(mlir_parser *p, int64_t *out_number);

// The function's arguments, in parentheses.
SPYRE_MUST_CHECK spyre_status mlir_read_arguments(mlir_parser *p);

// %name = operation: one of those that give a value.
SPYRE_MUST_CHECK spyre_status mlir_read_assignment(mlir_parser *p);

// #name = affine_map<..>
SPYRE_MUST_CHECK spyre_status mlir_read_map(mlir_parser *p);

#endif
