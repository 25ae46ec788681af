// SPDX-License-Identifier: Apache-2.0
//
// agree_divisions: ops that share a buffer agree on its division, so that every core finds in its
// LX what it needs next, where that saves more time than it costs. Planning op by op takes the
// largest loop of each, and a chain that changes its loops goes through memory at every change.
//
// Uneven slices (SPYRE_UNEVEN_SPLITS) cannot go over the ring; where even ones do, they may save
// more. Where inputs and outputs may have clones in LX (boundary_clones), readers of an input
// agree, too. So the search is done again with even slices, and with all clones that there could
// be, and what it finds is taken when the graph, its LX planned on trial, then takes less time.
#include <math.h>

#include "front/divide/agree_search.h"
#include "front/front.h"
#include "front/memory/lx_trial.h"

typedef struct {
    division *by_op;
    agree_plan costs;
} plan;

static bool may_clone(const loop_graph *loops)
{
    return clones_possible(loops) && !front_skips(&loops->settings, "boundary_clones") &&
           !front_skips(&loops->settings, "lx_planning");
}

// What a search with clones finds for the ops that are no copies; it costs INFINITY without clones.
static spyre_status search_with_clones(const loop_graph *loops, arena *memory, plan *out)
{
    loop_graph cloned;
    clone_list clones = {0};
    uint32_t kept = 0;
    out->costs.us = INFINITY;
    TRY(loop_copy(loops, memory, &cloned));
    TRY(clones_find(&cloned, CLONES_ALL, &clones));
    if (clones.count == 0) return NULL;
    TRY(clones_insert(&cloned, CLONES_ALL, &clones));
    out->by_op = ARENA_NEW(memory, division, cloned.ops.count);
    bool *copies = ARENA_NEW(memory, bool, cloned.ops.count);
    TRY_ALLOC(out->by_op);
    TRY_ALLOC(copies);
    TRY(agree_search(&cloned, &clones, memory, out->by_op, &out->costs));
    for (uint32_t n = 0; n < clones.count; n++) copies[clones.items[n].copy] = true;
    for (uint32_t i = 0; i < cloned.ops.count; i++)
        if (!copies[i]) out->by_op[kept++] = out->by_op[i];
    return NULL;
}

// With equal slices; one that nothing goes over the ring in costs INFINITY.
static spyre_status search_even(const loop_graph *loops, arena *memory, plan *out)
{
    loop_graph even = *loops;
    even.settings.uneven_splits = false;
    out->by_op = ARENA_NEW(memory, division, loops->ops.count);
    TRY_ALLOC(out->by_op);
    TRY(agree_search(&even, NULL, memory, out->by_op, &out->costs));
    if (!out->costs.shuffles) out->costs.us = INFINITY;
    return NULL;
}

// The other one where it takes less time by what the searches and by what trials say.
static spyre_status take_better(const loop_graph *loops, const plan *other, plan *best)
{
    uint32_t ops = loops->ops.count;
    double us, other_us;
    if (other->costs.us >= best->costs.us * (1 - 1e-9)) return NULL;
    TRY(lx_trial_us(loops, best->by_op, 0, ops, &us));
    TRY(lx_trial_us(loops, other->by_op, 0, ops, &other_us));
    if (other_us < us * (1 - 1e-9)) *best = *other;
    return NULL;
}

static spyre_status divide(loop_graph *loops, arena *memory, bool *out_changed)
{
    plan best = {.by_op = ARENA_NEW(memory, division, loops->ops.count)}, other;
    TRY_ALLOC(best.by_op);
    TRY(agree_search(loops, NULL, memory, best.by_op, &best.costs));
    if (loops->settings.uneven_splits) {
        TRY(search_even(loops, memory, &other));
        TRY(take_better(loops, &other, &best));
    }
    if (may_clone(loops)) {
        TRY(search_with_clones(loops, memory, &other));
        TRY(take_better(loops, &other, &best));
    }
    *out_changed = lx_trial_take(loops, best.by_op, 0, loops->ops.count);
    return NULL;
}

spyre_status pass_agree_divisions(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    if (division_is_published(loops) || loops->cores == 1 || loops->ops.count == 0) return NULL;
    return divide(loops, loop_scratch(loops), out_changed);
}
