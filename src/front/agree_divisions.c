// SPDX-License-Identifier: Apache-2.0
//
// agree_divisions: ops that share a buffer agree on its division, so that every core finds in its
// LX what it needs next, where that saves more time than it costs. Planning op by op takes the
// largest loop of each, and a chain that changes its loops goes through memory at every change.
//
// Where inputs and outputs may have clones in LX (boundary_clones), readers of an input agree, too:
// the search is done a second time with all clones that there could be, and what it finds is taken
// when the graph, its LX planned on trial, then takes less time.
#include <math.h>

#include "front/agree_search.h"
#include "front/front.h"
#include "front/lx_trial.h"

typedef struct {
    division *by_op;
    double us;
} plan;

static bool may_clone(const spyre_settings *settings)
{
    return settings->lx_boundary_clones && settings->lx_planning &&
           !front_skips(settings, "boundary_clones") && !front_skips(settings, "lx_planning");
}

// What a search with clones finds for the ops that are no copies; INFINITY us without clones.
static spyre_status search_with_clones(const loop_graph *loops, arena *memory, plan *out)
{
    loop_graph cloned;
    clone_list clones = {0};
    uint32_t kept = 0;
    out->us = INFINITY;
    TRY(loop_copy(loops, memory, &cloned));
    TRY(clones_find(&cloned, CLONES_ALL, &clones));
    if (clones.count == 0) return NULL;
    TRY(clones_insert(&cloned, CLONES_ALL, &clones));
    out->by_op = ARENA_NEW(memory, division, cloned.ops.count);
    bool *copies = ARENA_NEW(memory, bool, cloned.ops.count);
    TRY_ALLOC(out->by_op);
    TRY_ALLOC(copies);
    TRY(agree_search(&cloned, &clones, memory, out->by_op, &out->us));
    for (uint32_t n = 0; n < clones.count; n++) copies[clones.items[n].copy] = true;
    for (uint32_t i = 0; i < cloned.ops.count; i++)
        if (!copies[i]) out->by_op[kept++] = out->by_op[i];
    return NULL;
}

// The one with clones where it takes less time by what the search and by what a trial say.
static spyre_status take_better(const loop_graph *loops, const plan *with, plan *best)
{
    uint32_t ops = loops->ops.count;
    double us, us_with;
    if (with->us >= best->us * (1 - 1e-9)) return NULL;
    TRY(lx_trial_us(loops, best->by_op, 0, ops, &us));
    TRY(lx_trial_us(loops, with->by_op, 0, ops, &us_with));
    if (us_with < us * (1 - 1e-9)) *best = *with;
    return NULL;
}

static spyre_status divide(loop_graph *loops, arena *memory, bool *out_changed)
{
    plan best = {.by_op = ARENA_NEW(memory, division, loops->ops.count)}, with;
    TRY_ALLOC(best.by_op);
    TRY(agree_search(loops, NULL, memory, best.by_op, &best.us));
    if (may_clone(&loops->settings)) {
        TRY(search_with_clones(loops, memory, &with));
        TRY(take_better(loops, &with, &best));
    }
    *out_changed = lx_trial_take(loops, best.by_op, 0, loops->ops.count);
    return NULL;
}

spyre_status pass_agree_divisions(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    if (division_is_published(loops) || loops->cores == 1 || loops->ops.count == 0) return NULL;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = divide(loops, memory, out_changed);
    arena_destroy(memory);
    return status;
}
