// SPDX-License-Identifier: Apache-2.0
//
// Axes of a graph: loops of different ops are one axis when data flows along both of them element
// by element, so that the same division of both keeps a slice on its core. Ops that are joined by
// data form a part; parts can be planned apart.
#ifndef FRONT_AXES_H
#define FRONT_AXES_H

#include "front/cost/cost.h"
#include "front/ir/flow.h"

typedef struct {
    uint32_t op;
    uint8_t var;
} axis_member;

typedef struct {
    uint32_t part;
    double bytes;           // that its ops move
    int64_t units;          // the most that a member has
    uint32_t depth;         // the outermost place that it has in an op
    uint32_t first, count;  // members, in op order
} axis;

typedef struct {
    axis *items;             // by part; in a part by descending bytes, then outermost first
    uint32_t count;
    axis_member *members;
    uint32_t *part;          // by op
    uint32_t part_count;
    uint32_t *first_of_part; // by part, and one more: range in items
} axes;

// `basis`: one an op. Time is that of sorting the ops.
SPYRE_MUST_CHECK spyre_status axes_build(const loop_graph *loops, const flow *f,
                                         const cost_basis *const *basis, axes *out);

// How a plan along the axes of a part begins.
typedef struct {
    uint32_t first;  // axis that is divided before the others; parts with fewer begin with 0
    bool alone;      // no other axis is divided
    int64_t most;    // slices of the first one
} axes_plan;

// Divides every op along the axes of its part: the first one takes the largest divisor of its units
// that `most` and the cores allow, the others in order what is left.
void axes_divide(const loop_graph *loops, const axes *a, const cost_basis *const *basis,
                 const axes_plan *plan, division *out_plan);

#endif
