// SPDX-License-Identifier: Apache-2.0
//
// What must hold of every graph. INVALID_ARGUMENT names node, operand and rule; UNSUPPORTED marks a
// native that is well formed but beyond the card (a dtype, a symbolic size), which makes it a node
// of the host.
#ifndef GRAPH_VERIFY_H
#define GRAPH_VERIFY_H

#include "graph/graph.h"

// Ids, order, producers, names, dtypes, strides; views lie inside their storage; natives keep the
// rules of graph/aten.h. Symbolic sizes pass.
SPYRE_MUST_CHECK spyre_status graph_verify(const spyre_graph *graph);

// The same for a graph that a stage of ours made: a broken rule is our fault, so the code is
// INTERNAL and the message begins with "after <stage>".
SPYRE_MUST_CHECK spyre_status graph_verify_made(const spyre_graph *graph, const char *stage);

// The rules of one native node. Messages have no place in front.
SPYRE_MUST_CHECK spyre_status native_check(const spyre_graph *graph, uint32_t node);

#endif
