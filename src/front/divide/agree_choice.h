// SPDX-License-Identifier: Apache-2.0
//
// Choices of divisions, for agree_divisions. Graphs repeat themselves: ops that are alike share
// what their cost is made from, and each of their choices is found and kept once.
#ifndef FRONT_AGREE_CHOICE_H
#define FRONT_AGREE_CHOICE_H

#include "front/cost/cost.h"

// A division and what follows from it. Equal choices of an op are one object.
typedef struct {
    division d;
    division_view view[LOOP_MAX_OPERANDS];
    double result_bytes; // a core's part of the result
} agree_choice;

typedef struct {
    const loop_graph *loops;
    arena *memory;
    uint32_t *alike;          // by op: the first op with the same costs and views
    const cost_basis **basis; // by op
    map_bytes ids;            // of choices
    VEC(const agree_choice *) choices;
    bool no_memory;           // for some choice; the spare one stood in
    agree_choice spare;
} agree_kinds;

SPYRE_MUST_CHECK spyre_status agree_kinds_create(const loop_graph *loops, arena *memory,
                                                 agree_kinds *out);

const agree_choice *agree_choice_of(agree_kinds *kinds, uint32_t op, const division *d);

#endif
