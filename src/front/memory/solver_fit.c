// SPDX-License-Identifier: Apache-2.0
//
// First fit and best fit: all items at once, parents before children, short lives before long ones.
#include "front/memory/placement.h"
#include "front/memory/solver_order.h"

static spyre_status fit(solver_problem *problem, placement_policy policy)
{
    placement p;
    uint32_t *order;
    TRY(placement_create(problem, &p));
    TRY(solver_order_by(problem, solver_key_generation, &order));
    return placement_add_all(&p, order, policy);
}

spyre_status solver_firstfit(solver_problem *problem)
{
    return fit(problem, PLACE_FIRST_FIT);
}

spyre_status solver_bestfit(solver_problem *problem)
{
    return fit(problem, PLACE_BEST_FIT);
}
