// SPDX-License-Identifier: Apache-2.0
//
// For the tests of the solvers: their numbers, and what a plan is worth.
#ifndef UNIT_FRONT_SOLVER_CASE_H
#define UNIT_FRONT_SOLVER_CASE_H

#include "front/memory/solver.h"

enum { SEARCH, GREEDY, FIRST_FIT, BEST_FIT, EXACT, SOLVERS }; // the choices of layout_solver

static inline int64_t placed_worth_of(const solver_item *items, uint32_t count)
{
    int64_t worth = 0;
    for (uint32_t i = 0; i < count; i++)
        if (items[i].address != SOLVER_UNPLACED) worth += items[i].worth;
    return worth;
}

#endif
