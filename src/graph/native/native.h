// SPDX-License-Identifier: Apache-2.0
//
// Reading a native node: its operands, its result, and what they are expected to be. Every message
// names the operand; those of bad nodes are rules, of what the card lacks SPYRE_UNSUPPORTED.
#ifndef GRAPH_NATIVE_H
#define GRAPH_NATIVE_H

#include "graph/aten.h"
#include "graph/graph.h"

enum { NATIVE_MOST_OPERANDS = 3, NATIVE_RESULT = -1 };

typedef struct {
    const spyre_graph *graph;
    uint32_t node_id;
    const graph_node *node;
    const aten_row *row;
    uint32_t dtypes; // of operands
} native_checker;

typedef struct {
    spyre_dtype dtype;
    spyre_view view;
} native_operand;

#define native_rule(...) status_new(SPYRE_INVALID_ARGUMENT, __VA_ARGS__)

// The set of aten.h that a dtype belongs to; that of a native's operands (aten_takes()).
uint32_t native_dtype_set(spyre_dtype dtype);
uint32_t native_operand_dtypes(aten_op native, bool extended);

// A value as operand: on the card, sizes constant, not empty, a dtype of `dtypes`; the value of
// argument `index`; the only result, which is dense.
SPYRE_MUST_CHECK spyre_status native_load(const native_checker *c, uint32_t value, uint32_t dtypes,
                                          native_operand *out);
SPYRE_MUST_CHECK spyre_status native_load_arg(const native_checker *c, uint32_t index,
                                              uint32_t dtypes, native_operand *out);
SPYRE_MUST_CHECK spyre_status native_load_result(const native_checker *c, native_operand *out);

// So many arguments; a float as argument `index`.
SPYRE_MUST_CHECK spyre_status native_expect_args(const native_checker *c, uint32_t count);
SPYRE_MUST_CHECK spyre_status native_expect_real(const native_checker *c, uint32_t index);

// `index` is NATIVE_RESULT or the number of an operand.
SPYRE_MUST_CHECK spyre_status native_expect_sizes(const spyre_view *found,
                                                  const spyre_view *expected, int index);
SPYRE_MUST_CHECK spyre_status native_expect_dtype(spyre_dtype found, spyre_dtype expected,
                                                  int index);

#endif
