// SPDX-License-Identifier: Apache-2.0
//
// A segment in the making, and its own graph.
#ifndef GRAPH_SEGMENT_GRAPH_H
#define GRAPH_SEGMENT_GRAPH_H

#include "graph/segments/segments.h"

typedef struct {
    spyre_segment_kind kind;
    VEC(uint32_t) own;    // nodes whose work is this segment's
    VEC(uint32_t) nodes;  // own, and the free nodes it repeats
    VEC(uint32_t) inputs; // values
    VEC(uint32_t) outputs;
} segment_draft;

// Ids are those of `prepared`; draft->nodes ascends. input_of[v] is the graph input that value v
// is, or SPYRE_NO_ID; update_of[v] the output that replaces its contents where a segment makes it,
// or SPYRE_NO_ID.
SPYRE_MUST_CHECK spyre_status segment_build(const spyre_graph *prepared, const uint32_t *input_of,
                                            const uint32_t *update_of, const segment_draft *draft,
                                            arena *memory, graph_segment *out_segment);

#endif
