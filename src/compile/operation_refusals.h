// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a graph that front or back cannot express, and that the host gets in the next turn.
#ifndef COMPILE_OPERATION_REFUSALS_H
#define COMPILE_OPERATION_REFUSALS_H

#include "graph/segments/segments.h"

typedef struct {
    const spyre_graph *graph;
    arena *memory;
    const char **reason;                // [nodes of the graph], null: not refused; GRAPH_GATHERED
    uint32_t *kind;                     // [nodes of the graph], once one is refused
} refusals;

SPYRE_MUST_CHECK spyre_status refusals_begin(const spyre_graph *graph, arena *memory,
                                             refusals *out_refusals);

// Whether the node is still for the card.
bool refusals_has_way(const refusals *r, uint32_t node);

// Refuses a node for a reason, which is copied. When another node of its kind (the same op on
// values of the same types) has been refused before, all of the kind are: layers are alike, so a
// graph of many takes few turns, while one odd place costs no other node.
SPYRE_MUST_CHECK spyre_status refusals_add(refusals *r, uint32_t node, const char *reason);

#endif
