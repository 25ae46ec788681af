// SPDX-License-Identifier: Apache-2.0
//
// The graph IR: arrays of values and nodes named by 32-bit ids. A size or stride is the id of an
// interned integer expression (graph/expr/expr.h). Node order is a topological order.
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/expr/expr.h"
#include "spyre/graph.h"

// How a node is covered: the rows of aten.def say it for ops the card knows.
typedef enum {
    GRAPH_LAYER_NATIVE,        // one opfunc (or a fixed short sequence emitted by the front)
    GRAPH_LAYER_DECOMPOSITION, // rewritten into other nodes by src/graph
    GRAPH_LAYER_VIEW,          // no work: an access of its input's storage
    GRAPH_LAYER_HOST,          // executed by the caller
} graph_layer;

typedef struct {
    uint32_t rank;
    expr_id size[SPYRE_MAX_RANK];
    expr_id stride[SPYRE_MAX_RANK]; // elements of the storage
    expr_id offset;                 // elements of the storage
} graph_view;

typedef struct {
    spyre_dtype dtype;
    bool on_card;
    graph_view view;
    uint32_t node;    // producer, or SPYRE_NO_ID for a graph input and a removed value
    uint32_t result;  // index among the producer's results
    const char *name; // unique, for messages and the text form
} graph_value;

typedef struct {
    uint32_t value;
    graph_view storage; // the dense tensor that `layout` describes
    spyre_layout layout;
    uint32_t dims; // its dims' names, "M,K": index into spyre_graph.locations; 0 is none
    uint32_t update; // the output that replaces its contents, plus one; 0 is none
} graph_input;

// What the user asks of a node (graph/hint.h): indices into spyre_graph.locations, 0 is none.
typedef struct {
    uint32_t work_div; // slices: "M=2,K=4"
    uint32_t tiles;    // scopes, outermost first: "1:M=8,2:K=4"
    uint32_t dims;     // names of result 0: "M,K"
} graph_hint;

typedef struct {
    uint32_t op;         // row of aten.def, or SPYRE_NO_ID for an op that has none
    const char *op_name; // "aten.add.Tensor"
    graph_layer layer;
    const char *reason;    // why the layer is HOST, else null
    const spyre_arg *args; // positional, in the order of the op's schema
    uint32_t arg_count;
    const uint32_t *reads; // the values among the arguments, those in lists too, in their order
    uint32_t read_count;
    const uint32_t *results; // value ids
    uint32_t result_count;
    uint32_t location; // index into spyre_graph.locations; 0 is "unknown"
    graph_hint hint;
    uint32_t origin;   // the node of the caller's graph that this one came from
} graph_node;

// Between a pattern's name and the call that it found, in the reason of a graph_fate.
#define GRAPH_COMPOSITION " as "

// What became of a node of the caller's graph, in a prepared graph.
typedef struct {
    const char *op_name;
    const char *location;
    graph_layer layer;  // NATIVE: one native took it, DECOMPOSITION: several
    bool removed;       // nothing needs its results
    const char *reason; // of HOST, and of what a pattern took
    const char *beyond; // what no published list has: "own erf, extended tanh of float32"; or null
} graph_fate;

// A distinct op name of a graph, so that the table is searched once for each.
struct graph_op {
    const char *name;
    uint32_t row; // of aten.def, or SPYRE_NO_ID
};

struct spyre_graph {
    arena *memory;
    expr_table *exprs;
    VEC(graph_value) values;
    VEC(graph_node) nodes;
    VEC(graph_input) inputs;
    VEC(uint32_t) outputs;       // value ids
    VEC(const char *) locations; // and hints; [0] is "unknown"
    bool extended;               // prepared by graph_rules.extended
    uint32_t caller_node_count;  // nodes that the caller added; rewrites keep `origin` below
    map_bytes value_names;       // name -> value id
    map_bytes location_ids;      // text -> index into locations
    map_bytes op_ids;            // op name -> index into ops
    VEC(struct graph_op) ops;    // the distinct ops of the nodes
    VEC(graph_fate) fates;       // of a prepared graph, by the caller's node
};

// The value's view with every expression a constant, or SPYRE_UNSUPPORTED naming the symbol.
SPYRE_MUST_CHECK spyre_status graph_view_constant(const spyre_graph *graph, const graph_view *view,
                                                  spyre_view *out_view);

enum { GRAPH_MOST_SCALARS = 256 };

// A number that is known, or one that each launch gives.
typedef struct {
    double value;           // of a parameter: a number of its class (spyre_scalar_like())
    uint32_t scalar;        // the parameter's number plus one; 0: the value is known
    spyre_scalar_form form;
    bool is_int;            // a parameter's
} graph_number;

// Argument accessors; a missing argument (index >= arg_count or NONE) gives the default. The status
// names node, op, argument index and what was expected.
SPYRE_MUST_CHECK spyre_status graph_arg_value(const spyre_graph *graph, uint32_t node,
                                              uint32_t index,
                                              uint32_t *out_value); // SPYRE_NO_ID when None
SPYRE_MUST_CHECK spyre_status graph_arg_int(const spyre_graph *graph, uint32_t node, uint32_t index,
                                            int64_t fallback, int64_t *out);
SPYRE_MUST_CHECK spyre_status graph_arg_real(const spyre_graph *graph, uint32_t node,
                                             uint32_t index, double fallback,
                                             double *out); // int and bool allowed
// UNSUPPORTED above for a number that each launch gives.
SPYRE_MUST_CHECK spyre_status graph_arg_number(const spyre_graph *graph, uint32_t node,
                                               uint32_t index, double fallback, graph_number *out);
SPYRE_MUST_CHECK spyre_status graph_arg_bool(const spyre_graph *graph, uint32_t node,
                                             uint32_t index, bool fallback, bool *out);
// Ints of a list (or of a single int) into out[0..SPYRE_MAX_RANK); count 0 when None.
SPYRE_MUST_CHECK spyre_status graph_arg_ints(const spyre_graph *graph, uint32_t node,
                                             uint32_t index, int64_t *out, uint32_t *out_count);

// "node 17 aten.bmm.default (model.py:12)" in the arena, for messages.
const char *graph_node_place(const spyre_graph *graph, uint32_t node);

#endif
