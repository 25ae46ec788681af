// SPDX-License-Identifier: Apache-2.0
//
// Cuts a prepared graph into segments: maximal runs of nodes that the card executes, and runs that
// the host executes. Nodes of different kinds that do not depend on each other are regrouped so
// that host nodes cut as few card segments as possible.
#ifndef GRAPH_SEGMENTS_H
#define GRAPH_SEGMENTS_H

#include "graph/graph.h"
#include "spyre/compile.h"

typedef struct {
    spyre_segment_kind kind;
    spyre_graph *graph; // card: the segment's own graph, inputs and outputs set
    // Ids of the partitioned graph, parallel to graph->inputs and graph->outputs (card) or the
    // values that cross the boundary (host).
    const uint32_t *inputs;
    uint32_t input_count;
    const uint32_t *outputs;
    uint32_t output_count;
    const uint32_t *nodes; // caller's node ids (origins), ascending, no repeats
    uint32_t node_count;
} graph_segment;

typedef struct {
    bool host_fallback;     // false: a node that needs the host is an error naming op, operand,
                            // rule and source line
    bool published_opfuncs; // no opfuncs of our own
    bool extended;          // float32 has every opfunc and product (aten_takes)
} graph_rules;

#define GRAPH_HOST_ALLOWED ((graph_rules){.host_fallback = true})

// In the place of a reason: the node is for the card, with its operands copied that step across the
// dims of their storage, or whose elements overlap.
extern const char GRAPH_GATHERED[];

// Whether the node has such an operand.
bool graph_steps_across(const spyre_graph *graph, uint32_t node);

// Everything that happens before the front: checks, decompositions, patterns, coverage. Works on a
// copy; `out_graph` lives in `memory`. host_reasons[n] (the array or an entry may be
// null) says why node n of `graph` must stay on the host although its op is covered.
SPYRE_MUST_CHECK spyre_status graph_prepare(const spyre_graph *graph, graph_rules rules,
                                            const char *const *host_reasons, arena *memory,
                                            spyre_graph **out_graph);

// Segments in the order they must run; nodes keep their order inside one. Views and constants are
// free and are repeated in every card segment that needs them. An input of a card segment is
// therefore always the owner of a storage: a graph input, or a value that an earlier segment made,
// whose graph_input has its value's view as storage and a layout of rank 0, "as it was made". A
// host segment's inputs and outputs are values of the caller; an output on the card that a card
// segment needs is dense with the strides of its type and offset 0. Unless `fused`, a card segment
// has one node; with `most_tensors` above 0 it has no more inputs and outputs than these, but for
// segments of one node.
SPYRE_MUST_CHECK spyre_status graph_make_segments(const spyre_graph *prepared, bool fused,
                                                  uint32_t most_tensors, arena *memory,
                                                  graph_segment **out_segments,
                                                  uint32_t *out_count);

// One line a caller's node: id, op, source line, layer, reason. Appends to `out`.
SPYRE_MUST_CHECK spyre_status graph_report(const graph_fate *fates, uint32_t count, text *out);

#endif
