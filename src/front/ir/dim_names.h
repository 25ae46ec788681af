// SPDX-License-Identifier: Apache-2.0
//
// The user's names of dims.
#ifndef FRONT_DIM_NAMES_H
#define FRONT_DIM_NAMES_H

#include "front/ir/loop.h"

// The number in loop_op.dim_name of a name, which lives as long as the graph.
SPYRE_MUST_CHECK spyre_status dim_names_number(loop_graph *loops, const char *name,
                                               uint16_t *out_number);

// The name of the dim that an op's loop v walks, or null.
static inline const char *dim_names_of(const loop_graph *loops, const loop_op *op, uint32_t v)
{
    return op->dim_name[v] ? loops->dim_names.items[op->dim_name[v] - 1] : NULL;
}

// For messages: "loops of the segment are named M, K", or that none is; in the segment's memory.
const char *dim_names_in_use(const loop_graph *loops);

#endif
