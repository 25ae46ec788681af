// SPDX-License-Identifier: Apache-2.0
//
// Choices of divisions, for joint_work_division. Graphs repeat themselves: ops that are alike share
// what their cost is made from, and each of their choices is found and kept once.
#ifndef FRONT_DIVISION_CHOICE_H
#define FRONT_DIVISION_CHOICE_H

#include "front/cost/cost.h"
#include "front/ir/lx_slices.h"

// A division and what follows from it. Equal choices of an op are one object.
typedef struct {
    division d;
    lx_slices view[LOOP_MAX_OPERANDS];
    double result_bytes; // a core's part of the result
} division_choice;

typedef struct {
    const loop_graph *loops;
    arena *memory;
    uint32_t *alike;          // by op: the first op with the same costs and views
    const cost_basis **basis; // by op
    map_bytes ids;            // of choices
    VEC(const division_choice *) choices;
    bool no_memory; // for some choice; the spare one stood in
    division_choice spare;
} division_kinds;

SPYRE_MUST_CHECK spyre_status division_kinds_create(const loop_graph *loops, arena *memory,
                                                    division_kinds *out);

const division_choice *division_choice_of(division_kinds *kinds, uint32_t op, const division *d);

#endif
