// SPDX-License-Identifier: Apache-2.0
//
// joint_work_division: ops that share a buffer agree on its division, so that every core finds in
// its LX what it needs next, where that saves more time than it costs. Planning op by op takes the
// largest loop of each, and a chain that changes its loops goes through memory at every change.
//
// Uneven slices (SPYRE_UNEVEN_SPLITS) cannot go over the ring; where even ones do, they may save
// more. Where inputs and outputs may have copies in LX (boundary_copies.h), readers of an input
// agree, too. So the search is done again with even slices, and with all copies that there could
// be, and its result is taken when the completed plan of the graph then takes less time.
#include <math.h>

#include "front/front.h"
#include "front/plan/boundary_copies.h"
#include "front/plan/division_search.h"
#include "front/plan/plan.h"

typedef struct {
    division *by_op;
    plan_price costs;
} divided;

// What a search with boundary copies finds for the other ops; it costs INFINITY without any.
static spyre_status search_with_copies(const loop_graph *loops, arena *memory, divided *out)
{
    loop_graph trial;
    lx_copies copies;
    uint32_t kept = 0;
    out->costs = (plan_price){.us = INFINITY};
    TRY(boundary_copies_find(loops, BOUNDARY_ALL, &copies));
    if (copies.items.count == 0) return NULL;
    TRY(loop_copy(loops, memory, &trial));
    TRY(lx_copies_insert(&trial, &copies));
    TRY_NEW(memory, out->by_op, trial.ops.count);
    bool *is_copy = ARENA_NEW(memory, bool, trial.ops.count);
    TRY_ALLOC(is_copy);
    TRY(division_search(&trial, &copies, memory, out->by_op, &out->costs));
    for (uint32_t n = 0; n < copies.items.count; n++) is_copy[copies.items.items[n].at] = true;
    for (uint32_t i = 0; i < trial.ops.count; i++)
        if (!is_copy[i]) out->by_op[kept++] = out->by_op[i];
    return NULL;
}

// With equal slices; one that nothing goes over the ring in costs INFINITY.
static spyre_status search_even(const loop_graph *loops, arena *memory, divided *out)
{
    loop_graph even = *loops;
    even.settings.uneven_splits = false;
    TRY_NEW(memory, out->by_op, loops->ops.count);
    TRY(division_search(&even, NULL, memory, out->by_op, &out->costs));
    if (!out->costs.messages) out->costs.us = INFINITY;
    return NULL;
}

// The other one where it takes less time by what the searches and by what trials say.
static spyre_status take_better(const loop_graph *loops, const divided *other, divided *best)
{
    uint32_t ops = loops->ops.count;
    double us, other_us;
    if (!plan_is_better(other->costs, best->costs)) return NULL;
    TRY(plan_us(loops, best->by_op, 0, ops, &us));
    TRY(plan_us(loops, other->by_op, 0, ops, &other_us));
    if (plan_is_faster(other_us, us)) *best = *other;
    return NULL;
}

static spyre_status divide(loop_graph *loops, arena *memory, bool *out_changed)
{
    divided best = {.by_op = ARENA_NEW(memory, division, loops->ops.count)}, other;
    TRY_ALLOC(best.by_op);
    TRY(division_search(loops, NULL, memory, best.by_op, &best.costs));
    if (loops->settings.uneven_splits) {
        TRY(search_even(loops, memory, &other));
        TRY(take_better(loops, &other, &best));
    }
    if (!front_skips(&loops->settings, "lx_planning")) {
        TRY(search_with_copies(loops, memory, &other));
        TRY(take_better(loops, &other, &best));
    }
    *out_changed = plan_divide(loops, best.by_op, 0, loops->ops.count);
    return NULL;
}

spyre_status pass_joint_work_division(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    if (division_is_published(loops) || loops->cores == 1 || loops->ops.count == 0) return NULL;
    return divide(loops, loop_scratch(loops), out_changed);
}
