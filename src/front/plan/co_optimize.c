// SPDX-License-Identifier: Apache-2.0
//
// co_optimize: divisions and LX planned together, when asked for. joint_work_division takes one
// plan for all ops that data joins; here a stretch of ops, from one matmul to the next or over two
// of those, takes the divisions of another plan when the whole graph, its LX planned anew, then
// takes less time. A matmul and the ops around it so change together what none of them would change
// alone. Trying every op's divisions with every other's would be exact and takes forever; here the
// ops that are planned are counted and bounded, and a graph never gets slower.
#include "front/divide/span_reduction.h"
#include "front/front.h"
#include "front/plan/division_search.h"
#include "front/plan/jointly_divided_loops.h"
#include "front/plan/plan.h"

enum { LOOPS_TRIED = 3, MOST_SWEEPS = 3, MOST_PLANNED_OPS = 1 << 17 };

typedef struct {
    loop_graph *loops;
    const cost_basis **basis; // by op
    uint32_t *start;          // of stretches, and the end of the last
    uint32_t stretch_count;
    double us; // of the graph as it is
    uint32_t planned_ops;
} optimizer;

static bool may_change(const loop_graph *loops, const loop_op *op, const division *d)
{
    return op->divided_by != LOOP_DIVIDED_BY_HINT && op->divided_by != LOOP_DIVIDED_BY_SPAN &&
           op->tile_depth == 0 && span_fits(loops, op, d);
}

// Ops that may not change keep their divisions.
static void keep_fixed(const loop_graph *loops, division *divisions)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (!may_change(loops, &loops->ops.items[i], &divisions[i]))
            divisions[i] = division_get(&loops->ops.items[i]);
}

static spyre_status price(optimizer *o, const division *divisions, uint32_t begin, uint32_t end,
                          double *out_us)
{
    o->planned_ops += o->loops->ops.count;
    return plan_us(o->loops, divisions, begin, end, out_us);
}

static spyre_status try_stretch(optimizer *o, const division *divisions, uint32_t begin,
                                uint32_t end, bool *out_changed)
{
    double us;
    if (o->planned_ops > MOST_PLANNED_OPS) return NULL;
    TRY(price(o, divisions, begin, end, &us));
    if (!plan_is_faster(us, o->us)) return NULL;
    o->us = us;
    *out_changed |= plan_divide(o->loops, divisions, begin, end);
    return NULL;
}

static spyre_status try_plan(optimizer *o, const division *divisions, bool *out_changed)
{
    for (uint32_t n = 0; n < o->stretch_count; n++)
        for (uint32_t length = 1; length <= 2 && n + length <= o->stretch_count; length++)
            TRY(try_stretch(o, divisions, o->start[n], o->start[n + length], out_changed));
    return NULL;
}

// Along each of the heaviest joint loops: with the others behind it, alone, and with a quarter of
// the slices, which leaves matmuls the rows that fill the PT.
static spyre_status sweep(optimizer *o, const joint_loops *a, division *divisions,
                          bool *out_changed)
{
    int64_t cores = o->loops->cores, quarter = cores / 4 ? cores / 4 : 1;
    for (uint32_t first = 0; first < LOOPS_TRIED; first++) {
        const joint_plan plans[] = {
            {first, false, cores}, {first, true, cores}, {first, false, quarter}};
        for (uint32_t n = 0; n < sizeof plans / sizeof *plans; n++) {
            joint_loops_divide(o->loops, a, o->basis, &plans[n], divisions);
            keep_fixed(o->loops, divisions);
            TRY(try_plan(o, divisions, out_changed));
        }
    }
    return NULL;
}

// The plan of joint_work_division, which published divisions have not seen: of all ops, and of
// stretches.
static spyre_status try_joint_plan(optimizer *o, division *divisions, bool *out_changed)
{
    plan_price costs;
    TRY(division_search(o->loops, NULL, loop_scratch(o->loops), divisions, &costs));
    keep_fixed(o->loops, divisions);
    TRY(try_stretch(o, divisions, 0, o->loops->ops.count, out_changed));
    return try_plan(o, divisions, out_changed);
}

static spyre_status find_stretches(optimizer *o)
{
    const loop_op_list *ops = &o->loops->ops;
    TRY_NEW(o->loops->memory, o->start, ops->count + 1);
    for (uint32_t i = 0; i < ops->count; i++)
        if (i == 0 || loop_is_matmul(&ops->items[i])) o->start[o->stretch_count++] = i;
    o->start[o->stretch_count] = ops->count;
    return NULL;
}

static spyre_status optimize(optimizer *o, bool *out_changed)
{
    loop_graph *loops = o->loops;
    uint32_t count = loops->ops.count;
    division *divisions = ARENA_NEW(loops->memory, division, count);
    cost_basis *basis = ARENA_NEW(loops->memory, cost_basis, count);
    TRY_NEW(loops->memory, o->basis, count);
    TRY_ALLOC(divisions);
    TRY_ALLOC(basis);
    for (uint32_t i = 0; i < count; i++) {
        basis[i] = cost_basis_of(loops, &loops->ops.items[i]);
        o->basis[i] = &basis[i];
    }
    def_use f;
    joint_loops a;
    TRY(def_use_build(loops, &f));
    TRY(joint_loops_build(loops, &f, o->basis, &a));
    TRY(find_stretches(o));
    TRY(price(o, NULL, 0, 0, &o->us));
    TRY(try_joint_plan(o, divisions, out_changed));
    bool again = true;
    for (uint32_t n = 0; n < MOST_SWEEPS && again; n++) {
        again = false;
        TRY(sweep(o, &a, divisions, &again));
        *out_changed |= again;
    }
    return NULL;
}

spyre_status pass_co_optimize(loop_graph *loops, bool *out_changed)
{
    optimizer o = {.loops = loops};
    *out_changed = false;
    if (!loops->settings.co_optimizing_lx_planning || !loops->settings.lx_planning) return NULL;
    if (loops->cores == 1 || loops->ops.count == 0) return NULL;
    return optimize(&o, out_changed);
}
