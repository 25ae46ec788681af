// SPDX-License-Identifier: Apache-2.0
//
// boundary_clones: what enters or leaves the graph lives in memory, so every reader of it goes
// there. An input that several accesses read alike is copied once, by an op of its own, into a
// buffer that may live in LX; a result that leaves the graph and is read in it too is made in such
// a buffer, and a copy of it leaves. That waits for LX_BOUNDARY_CLONES, but for inputs of layer
// norms, which torch-spyre's form of it reads once. Whether LX has room for a clone is known only
// when all of LX is planned, so the plan is made on trial: clones without a place go, and the rest
// stays when the graph takes less time with them than without any.
#include "front/cost/cost.h"
#include "front/front.h"
#include "front/memory/clones.h"

enum { MOST_TRIALS = 3 };

static spyre_status plan(const loop_graph *loops, clone_list *clones, arena *scratch,
                         loop_graph *out, double *out_us)
{
    bool changed;
    TRY(loop_copy(loops, scratch, out));
    TRY(clones_insert(out, CLONES_AGREED, clones));
    TRY(pass_lx_planning(out, &changed));
    *out_us = cost_of_graph(out);
    return NULL;
}

// Keeps those that LX has room for; true when all were.
static bool keep_placed(const loop_graph *planned, clone_list *clones)
{
    uint32_t kept = 0, count = clones->count;
    for (uint32_t n = 0; n < count; n++)
        if (planned->buffers.items[clones->items[n].buffer].in_lx)
            clones->items[kept++] = clones->items[n];
    clones->count = kept;
    return kept == count;
}

static spyre_status choose(const loop_graph *loops, clone_list *clones, arena *scratch)
{
    loop_graph trial;
    clone_list none = {0};
    double without, with = 0;
    bool settled = false;
    TRY(plan(loops, &none, scratch, &trial, &without));
    for (uint32_t n = 0; n < MOST_TRIALS && clones->count && !settled; n++) {
        TRY(plan(loops, clones, scratch, &trial, &with));
        settled = keep_placed(&trial, clones);
    }
    if (!settled || with >= without) clones->count = 0;
    return NULL;
}

spyre_status pass_boundary_clones(loop_graph *loops, bool *out_changed)
{
    clone_list clones = {0};
    *out_changed = false;
    if (!clones_possible(loops)) return NULL;
    TRY(clones_find(loops, CLONES_AGREED, &clones));
    if (clones.count == 0) return NULL;
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = choose(loops, &clones, scratch);
    arena_destroy(scratch);
    TRY(status);
    if (clones.count == 0) return NULL;
    *out_changed = true;
    return clones_insert(loops, CLONES_AGREED, &clones);
}
