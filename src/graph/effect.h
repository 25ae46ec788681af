// SPDX-License-Identifier: Apache-2.0
//
// What a node of the host does beyond computing its results, told by its op's name.
#ifndef GRAPH_EFFECT_H
#define GRAPH_EFFECT_H

#include "graph/graph.h"

typedef enum {
    EFFECT_NONE,
    EFFECT_RANDOM,  // draws random numbers: stays in order with others, may be removed
    EFFECT_EXCHANGE, // between ranks: stays in order with others, is never removed
    EFFECT_WRITES,  // writes into its first argument ("aten.copy_.default"): is never removed
    EFFECT_UNKNOWN, // an op of another library: may write into any argument, is never removed
} graph_effect;

graph_effect graph_effect_of(const graph_node *node);

// Whether the node waits for what an exchange has started. Waits have no order among each other.
bool graph_is_wait(const graph_node *node);

// The nodes that the outputs and the nodes with effects need, and how often a value is an output or
// read by one of them. Both arrays are as long as the graph's, and zero before.
void graph_find_needed(const spyre_graph *graph, bool *needed_nodes, uint32_t *uses);

#endif
