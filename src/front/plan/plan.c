// SPDX-License-Identifier: Apache-2.0
//
// The plan of LX follows from the divisions. It begins without copies, then takes two kinds of
// moves, boundary copies and shuffles. All candidates of a kind are inserted into a copy of the
// graph and LX is placed anew; those without a place are dropped, and the rest stays when the
// graph then takes less time; if it does not, the half that gains least is dropped, and so on.
// Adding candidates one by one would see more plans, but place LX once for each.
#include "front/plan/plan.h"

#include <string.h>

#include "front/cost/cost.h"
#include "front/front.h"
#include "front/plan/boundary_copies.h"
#include "front/plan/lx_places.h"
#include "front/plan/lx_shuffles.h"

enum { MOST_TRIALS = 8 };
static const double MESSAGES_SAVE = 0.02, ROUNDING = 1e-9;

bool plan_is_faster(double us, double than_us)
{
    return us < than_us * (1 - ROUNDING);
}

bool plan_is_better(plan_price a, plan_price b)
{
    if (a.messages != b.messages) *(a.messages ? &a.us : &b.us) *= 1 + MESSAGES_SAVE;
    return plan_is_faster(a.us, b.us);
}

bool plan_divide(loop_graph *loops, const division *divisions, uint32_t begin, uint32_t end)
{
    bool any = false;
    for (uint32_t i = begin; i < end; i++) {
        loop_op *op = &loops->ops.items[i];
        division now = division_get(op);
        if (division_equals(op, &divisions[i], &now)) continue;
        division_set(op, &divisions[i], LOOP_DIVIDED_BY_AGREEMENT);
        any = true;
    }
    return any;
}

// --- Completion

// The best plan so far, and its time once that is known.
typedef struct {
    loop_graph graph;
    double us;
} best_plan;

static spyre_status try_copies(const loop_graph *loops, lx_copies *copies, arena *scratch,
                               loop_graph *out)
{
    TRY(loop_copy(loops, scratch, out));
    TRY(lx_copies_insert(out, copies));
    return lx_places_choose(out);
}

static spyre_status take_copies(best_plan *best, lx_copies *copies, arena *scratch)
{
    loop_graph trial;
    if (lx_copies_kept(copies) && best->us < 0) best->us = cost_of_graph(&best->graph);
    for (uint32_t n = 0; n < MOST_TRIALS && lx_copies_kept(copies); n++) {
        TRY(try_copies(&best->graph, copies, scratch, &trial));
        if (!lx_copies_keep_placed(&trial, copies)) continue;
        double us = cost_of_graph(&trial);
        if (plan_is_faster(us, best->us)) {
            *best = (best_plan){trial, us};
            return NULL;
        }
        TRY(lx_copies_drop_half(scratch, copies));
    }
    return NULL;
}

spyre_status plan_adopt(loop_graph *loops, const loop_graph *planned)
{
    uint32_t ops = planned->ops.count, buffers = planned->buffers.count;
    if (ops > loops->ops.capacity) TRY(VEC_ROOM(loops->memory, &loops->ops, ops));
    if (buffers > loops->buffers.capacity) TRY(VEC_ROOM(loops->memory, &loops->buffers, buffers));
    memcpy(loops->ops.items, planned->ops.items, ops * sizeof *loops->ops.items);
    memcpy(loops->buffers.items, planned->buffers.items, buffers * sizeof *loops->buffers.items);
    loops->ops.count = ops;
    loops->buffers.count = buffers;
    return NULL;
}

spyre_status plan_complete(loop_graph *loops, arena *scratch)
{
    lx_copies copies;
    TRY(lx_places_choose(loops));
    best_plan best = {*loops, -1};
    best.graph.scratch = scratch;
    TRY(boundary_copies_find(&best.graph, BOUNDARY_AGREED, &copies));
    TRY(take_copies(&best, &copies, scratch));
    TRY(lx_shuffles_find(&best.graph, &copies));
    TRY(take_copies(&best, &copies, scratch));
    return best.graph.ops.items == loops->ops.items ? NULL : plan_adopt(loops, &best.graph);
}

// --- Trials

static spyre_status try_divisions(const loop_graph *loops, const division *divisions,
                                  uint32_t begin, uint32_t end, arena *scratch, double *out_us)
{
    loop_graph trial;
    TRY(loop_copy(loops, scratch, &trial));
    plan_divide(&trial, divisions, begin, end);
    TRY(lx_shuffles_undo(&trial));
    if (loops->settings.lx_planning && !front_skips(&loops->settings, "lx_planning"))
        TRY(plan_complete(&trial, scratch));
    *out_us = cost_of_graph(&trial);
    return NULL;
}

spyre_status plan_us(const loop_graph *loops, const division *divisions, uint32_t begin,
                     uint32_t end, double *out_us)
{
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = try_divisions(loops, divisions, begin, end, scratch, out_us);
    arena_destroy(scratch);
    return status;
}
