// SPDX-License-Identifier: Apache-2.0
//
// A plan of a graph: the work divisions of its ops, the copies between them that fill LX
// (lx_copies.h), and places in LX. Plans are compared by one measure, the predicted time of the
// graph (front/cost/cost.h), and by one rule.
#ifndef FRONT_PLAN_H
#define FRONT_PLAN_H

#include "front/ir/division.h"

// What divisions cost, of a graph or of a part of it.
typedef struct {
    double us;
    bool messages; // slices go over the ring
} plan_price;

// True when a plan of `us` is faster than one of `than_us`; what differs by rounding is equal.
bool plan_is_faster(double us, double than_us);

// True when divisions of price a are to replace those of price b: they are faster. Those that need
// messages have to save 2 % of what others take: predicted times are not closer to the card's than
// that, and a plan without messages has fewer kernels and needs less LX.
bool plan_is_better(plan_price a, plan_price b);

// Divides ops [begin, end), those that are divided otherwise; true when some are.
bool plan_divide(loop_graph *loops, const division *divisions, uint32_t begin, uint32_t end);

// Gives the graph the ops and buffers of a plan of it that lives in scratch memory, in the place of
// its own as far as that has room.
SPYRE_MUST_CHECK spyre_status plan_adopt(loop_graph *loops, const loop_graph *planned);

// Completes the plan of a graph whose ops are divided: places what may be in LX, then keeps the
// boundary copies and the shuffles with which it takes less time. Plans on trial live in `scratch`.
SPYRE_MUST_CHECK spyre_status plan_complete(loop_graph *loops, arena *scratch);

// The graph's time with ops [begin, end) divided so and the plan completed anew; `divisions`, by
// op, is not read when there are no such ops. Shuffles that the graph has are left out first.
SPYRE_MUST_CHECK spyre_status plan_us(const loop_graph *loops, const division *divisions,
                                      uint32_t begin, uint32_t end, double *out_us);

#endif
