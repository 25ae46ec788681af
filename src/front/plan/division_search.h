// SPDX-License-Identifier: Apache-2.0
//
// Several plans are drawn up: the published divisions, products as they are cheapest with what they
// read and make in LX, and along each of the heaviest joint loops (jointly_divided_loops.h) one
// with the others behind it and one with it alone, because a reduced loop keeps no slices beside
// it. In each plan every op in turn takes what is cheapest next to its neighbours
// (division_candidates.h). The best of them is drawn up once more with what follows a product
// divided as the product is. All of them are drawn up with shuffles and, when the best has some,
// the best few again without. Each part of the graph gets the cheapest plan, by the time of
// front/cost/cost.h with what LX has room for (division_plan.h).
#ifndef FRONT_DIVISION_SEARCH_H
#define FRONT_DIVISION_SEARCH_H

#include "front/plan/division_plan.h"

// Finds the division of every op, and what the graph then costs. `copies`: those that were inserted
// for the search (boundary_copies.h), each of which is left out of a plan that has no place in LX
// for its buffer; null: none.
SPYRE_MUST_CHECK spyre_status division_search(const loop_graph *loops, const lx_copies *copies,
                                              arena *memory, division *out_best,
                                              plan_price *out_price);

#endif
