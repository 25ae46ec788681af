// SPDX-License-Identifier: Apache-2.0
//
// Compositions of nodes that stand for one operation (pattern.def): found in the caller's graph
// before decomposition, and replaced by that operation.
#ifndef GRAPH_PATTERN_H
#define GRAPH_PATTERN_H

#include "graph/graph.h"

enum { PATTERN_MOST_ARGS = 8, PATTERN_MOST_NODES = 24, PATTERN_MOST_NAMES = 32 };

typedef enum {
    PATTERN_ANY,     // "_"
    PATTERN_TENSOR,  // "%x": value or result of a node
    PATTERN_NUMBER,  // "$s"
    PATTERN_LITERAL, // a number, bool, dtype, string, none, or a list of one int
    PATTERN_PAIR,    // "[%x, %y]": a list of two tensors
    PATTERN_LAST,    // "$last(%x)", also in a list
    PATTERN_INVERSE, // "$inverse($s)"
} pattern_arg_kind;

typedef struct {
    pattern_arg_kind kind;
    uint32_t name;     // TENSOR, NUMBER, LAST, INVERSE, PAIR: index into the pattern's names
    uint32_t second;   // PAIR: that of the other tensor
    bool listed;       // LAST inside [ ]
    spyre_arg literal; // LITERAL
} pattern_arg;

typedef struct {
    const char *op;
    uint32_t result; // name
    pattern_arg args[PATTERN_MOST_ARGS];
    uint32_t arg_count;
} pattern_call;

typedef struct {
    const char *name; // of the row
    const char *names[PATTERN_MOST_NAMES];
    uint32_t name_count;
    pattern_call nodes[PATTERN_MOST_NODES]; // the root last
    uint32_t node_count;
    pattern_call conditions[8]; // op is the condition's name, arguments are tensors
    uint32_t condition_count;
    pattern_call becomes;
} pattern;

// Reads the text of a row; errors name row, line and column. Lives in `memory`.
SPYRE_MUST_CHECK spyre_status pattern_parse(const char *name, const char *source, arena *memory,
                                            pattern *out_pattern);

// All rows of pattern.def, parsed once a process. Thread safe.
SPYRE_MUST_CHECK spyre_status pattern_table(const pattern **out_patterns, uint32_t *out_count);

// Whether a condition of a row holds of the tensors that it names; `values` are the row's names as
// values of the graph. Of symbolic sizes none holds.
bool pattern_holds(const spyre_graph *graph, const pattern_call *condition, const uint32_t *values);

// Whether there is a condition of that name with so many tensors.
bool pattern_knows(const pattern_call *condition);

// What became of the nodes of a graph: `root[n]` is the node that n became a part of (its own id
// for a root) or SPYRE_NO_ID, `name[n]` the pattern of a root or null.
typedef struct {
    spyre_graph graph; // shares everything with the caller's graph but the array of nodes
    uint32_t *root;
    const char **name;
} pattern_result;

// Replaces what the table finds, except at the roots that `blocked` (by node) marks. Linear in the
// nodes. Everything lives in `memory`.
SPYRE_MUST_CHECK spyre_status pattern_apply(const spyre_graph *graph, const bool *blocked,
                                            arena *memory, pattern_result *out_result);

#endif
