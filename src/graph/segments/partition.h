// SPDX-License-Identifier: Apache-2.0
//
// Partition of a prepared graph: which nodes are a segment of the card, and which of the host.
#ifndef GRAPH_PARTITION_H
#define GRAPH_PARTITION_H

#include "graph/graph.h"
#include "spyre/compile.h"

typedef struct {
    uint32_t segment_count;
    const spyre_segment_kind *kinds; // by segment
    const uint32_t *segment_of;      // by node; SPYRE_NO_ID for free nodes
    const uint32_t *base;            // by value: see graph_find_bases()
} graph_segments;

// Views and constants are free: every segment that needs one makes it anew. A constant that the
// caller or the host sees is an ordinary native.
SPYRE_MUST_CHECK spyre_status graph_partition(const spyre_graph *graph, arena *memory,
                                              graph_segments *out_segments);

#endif
