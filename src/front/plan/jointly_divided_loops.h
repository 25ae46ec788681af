// SPDX-License-Identifier: Apache-2.0
//
// Joint loops of a graph: loops of different ops along which data flows element by element, so that
// the same division of all of them keeps a slice on its core. Ops that are joined by data form a
// part; parts can be planned apart.
#ifndef FRONT_JOINTLY_DIVIDED_LOOPS_H
#define FRONT_JOINTLY_DIVIDED_LOOPS_H

#include "front/cost/cost.h"
#include "front/ir/def_use.h"

typedef struct {
    uint32_t op;
    uint8_t var;
} joint_member;

typedef struct {
    uint32_t part;
    double bytes;          // that its ops move
    int64_t units;         // the most that a member has
    uint32_t depth;        // the outermost place that it has in an op
    uint32_t first, count; // members, in op order
} joint_loop;

typedef struct {
    joint_loop *items; // by part; in a part by descending bytes, then outermost first
    uint32_t count;
    joint_member *members;
    uint32_t *part; // by op
    uint32_t part_count;
    uint32_t *first_of_part; // by part, and one more: range in items
} joint_loops;

// `basis`: one an op. Time is that of sorting the ops.
SPYRE_MUST_CHECK spyre_status joint_loops_build(const loop_graph *loops, const def_use *f,
                                                const cost_basis *const *basis, joint_loops *out);

// How a plan along the joint loops of a part begins.
typedef struct {
    uint32_t first; // the one that is divided before the others; parts with fewer begin with 0
    bool alone;     // no other one is divided
    int64_t most;   // slices of the first one
} joint_plan;

// Divides every op along the joint loops of its part: the first one takes the largest divisor of
// its units that `most` and the cores allow, the others in order what is left.
void joint_loops_divide(const loop_graph *loops, const joint_loops *a,
                        const cost_basis *const *basis, const joint_plan *plan, division *out_plan);

#endif
