// SPDX-License-Identifier: Apache-2.0
//
// Solvers that place all items once, in one order, and keep what is decided. The greedy one takes
// them as they begin to live; first fit and best fit parents before children, short lives before
// long ones.
#include "front/memory/placement.h"
#include "front/memory/solver_keys.h"

static spyre_status place(solver_problem *problem, solver_key_function *key,
                          placement_policy policy)
{
    placement p;
    uint32_t *order;
    TRY(placement_create(problem, &p));
    TRY(solver_order_by(problem, key, &order));
    return placement_add_all(&p, order, policy);
}

spyre_status solver_greedy(solver_problem *problem)
{
    return place(problem, solver_key_start, PLACE_GREEDY);
}

spyre_status solver_firstfit(solver_problem *problem)
{
    return place(problem, solver_key_generation, PLACE_FIRST_FIT);
}

spyre_status solver_bestfit(solver_problem *problem)
{
    return place(problem, solver_key_generation, PLACE_BEST_FIT);
}
