// SPDX-License-Identifier: Apache-2.0
//
// The greedy solver: items in the order in which they begin to live; what is decided stays.
#include "front/memory/placement.h"
#include "front/memory/solver_order.h"

spyre_status solver_greedy(solver_problem *problem)
{
    placement p;
    uint32_t *order;
    TRY(placement_create(problem, &p));
    TRY(solver_order_by(problem, solver_key_start, &order));
    return placement_add_all(&p, order, PLACE_GREEDY);
}
