// SPDX-License-Identifier: Apache-2.0
//
// Adding to a graph: what the public builder, the text reader and the rewrites share.
#ifndef GRAPH_BUILD_H
#define GRAPH_BUILD_H

#include "graph/graph.h"

enum {
    GRAPH_DEEPEST_LIST = 8,       // lists inside one another
    GRAPH_MOST_ITEMS = 1 << 20,   // items of one list
    GRAPH_MOST_RESULTS = 1 << 16, // results of one node
};

// The type of a value before it has an id.
typedef struct {
    spyre_dtype dtype;
    bool on_card;
    graph_view view;
} graph_type;

typedef struct {
    const char *op_name;
    const spyre_arg *args; // copied
    uint32_t arg_count;
    const uint32_t *results; // value ids, copied; the values' producer is set
    uint32_t result_count;
    uint32_t location;
    graph_hint hint;
    uint32_t origin;
} graph_new_node;

// An empty graph whose parts lie in `memory`; null when memory is short.
spyre_graph *graph_create(arena *memory);

// Constants of the graph's expression table.
SPYRE_MUST_CHECK spyre_status graph_view_from(spyre_graph *graph, const spyre_view *view,
                                              graph_view *out_view);

SPYRE_MUST_CHECK spyre_status graph_check_rank(uint32_t rank);

bool graph_is_name_taken(const spyre_graph *graph, const char *name);

// A value without a producer. `name` is copied and must be unused and legal; null makes one.
SPYRE_MUST_CHECK spyre_status graph_add_value(spyre_graph *graph, const char *name,
                                              const graph_type *type, uint32_t *out_value);

// Makes an existing value a graph input. A null `storage` asks for the defaults: the view itself in
// the default layout. A null layout beside a storage is one that is not known yet.
SPYRE_MUST_CHECK spyre_status graph_add_input(spyre_graph *graph, uint32_t value,
                                              const graph_view *storage,
                                              const spyre_layout *layout);

// The storage and layout that an input of that type has by default; layout rank 0 when the type has
// none (a host tensor, symbolic sizes, a dtype without a card format). A view without elements, of
// any strides, has a storage without elements.
SPYRE_MUST_CHECK spyre_status graph_default_storage(const spyre_graph *graph,
                                                    const graph_value *value,
                                                    graph_view *out_storage,
                                                    spyre_layout *out_layout);

// Checks and adds a node; its layer is that of the op's row, HOST without a row.
SPYRE_MUST_CHECK spyre_status graph_add_node(spyre_graph *graph, const graph_new_node *node,
                                             uint32_t *out_node);

// Its two halves: checked copies of arguments, which see the values of now, and a node with them.
SPYRE_MUST_CHECK spyre_status graph_copy_args(spyre_graph *graph, const spyre_arg *from,
                                              uint32_t count, const spyre_arg **out_args);
SPYRE_MUST_CHECK spyre_status graph_append_node(spyre_graph *graph, const graph_new_node *node,
                                                const spyre_arg *args, uint32_t *out_node);

// Gives a node its arguments, which stay the caller's, and what it reads.
SPYRE_MUST_CHECK spyre_status graph_set_args(arena *memory, graph_node *node, const spyre_arg *args,
                                             uint32_t count);

// The id of a location text; null gives 0, "unknown".
SPYRE_MUST_CHECK spyre_status graph_add_location(spyre_graph *graph, const char *location,
                                                 uint32_t *out_location);

#endif
