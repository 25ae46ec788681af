// SPDX-License-Identifier: Apache-2.0
//
// Parts of the card's segments, for bundles that may take only so many tensors.
#ifndef GRAPH_SEGMENT_SPLIT_H
#define GRAPH_SEGMENT_SPLIT_H

#include "graph/segments/partition.h"

// Parts every segment of the card in place, nodes in their order: each node is a part by itself, or
// with `most_tensors` above 0, parts are as long as they take no more tensors than that: external
// inputs and live-out results. A node that takes more is a part alone.
// Constants do not count.
SPYRE_MUST_CHECK spyre_status graph_split_segments(const spyre_graph *graph, uint32_t most_tensors,
                                                 arena *memory, graph_segments *segments);

#endif
