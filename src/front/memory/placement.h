// SPDX-License-Identifier: Apache-2.0
//
// Items placed so far, found by time. Time is cut into equal stretches with a list each, so that a
// query looks at few items besides those that it is about. Internal to the solvers.
#ifndef FRONT_PLACEMENT_H
#define FRONT_PLACEMENT_H

#include "front/memory/solver.h"

typedef enum {
    PLACE_GREEDY,   // address 0, else above everything, else the lowest gap
    PLACE_FIRST_FIT,
    PLACE_BEST_FIT,
} placement_policy;

typedef struct {
    int64_t low, high;
    uint32_t item;
} placement_range;

typedef VEC(uint32_t) placement_list;

typedef struct {
    solver_problem *problem;
    uint32_t *child;              // by item: who may take its place, or its own number
    uint32_t width;               // ops a stretch
    placement_list *stretches;
    uint32_t stretch_count;
    uint32_t *seen, query;        // by item: the last query that looked at it
    VEC(placement_range) overlapping; // items that live at the time asked for, by address
    int64_t visits;               // items looked at so far, the measure of work
} placement;

SPYRE_MUST_CHECK spyre_status placement_create(solver_problem *problem, placement *out);

// Takes every item out, then gives them places in an order, those that find one: that of a parent
// or of the child before any other.
SPYRE_MUST_CHECK spyre_status placement_add_all(placement *p, const uint32_t *order,
                                                placement_policy policy);

#endif
