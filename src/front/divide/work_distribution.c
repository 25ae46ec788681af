// SPDX-License-Identifier: Apache-2.0
//
// work_distribution: divides every op that no earlier pass has settled. Splits that the span limit
// demands stay. Result loops are ranked by size (a stick loop counts in sticks); each in turn gets
// the largest divisor that the cores left allow. Then one reduced loop, the one with the largest
// possible split, unless one is committed. Source: torch-spyre, docs/source/compiler/
// work_division_planning.md, "Pass 3".
//
// Partial sums of slices round differently from one sum, and numbers shall not depend on the number
// of cores: unless the published division is asked for, a reduced loop is divided only where its
// slices combine exactly.
#include "front/front.h"
#include "front/ir/core_numbers.h"
#include "front/ir/division.h"

static bool may_combine(const loop_graph *loops, const loop_op *op, uint32_t v)
{
    return division_is_published(loops) ? division_combines(op, v)
                                     : division_combines_exactly(loops, op, v);
}

static void distribute_results(const loop_op *op, const division_sizes *sizes, division *d,
                               int64_t *cores)
{
    int64_t units[LOOP_MAX_VARS];
    bool done[LOOP_MAX_VARS], shared = false; // results, by cores whose reduced slices differ
    for (uint32_t v = 0; v < op->var_count; v++)
        shared |= d->split[v] > 1 && loop_var_is_reduced(op, v);
    for (uint32_t v = 0; v < op->var_count; v++) {
        done[v] = d->split[v] > 1 || !loop_result(op)->stride[v];
        units[v] = done[v] ? 1 : sizes->units[v];
    }
    for (uint32_t turn = 0; turn < op->var_count && *cores > 1; turn++) {
        uint32_t largest = LOOP_NO_DIM;
        for (uint32_t v = 0; v < op->var_count; v++)
            if (!done[v] && (largest == LOOP_NO_DIM || units[v] > units[largest])) largest = v;
        if (largest == LOOP_NO_DIM) return;
        done[largest] = true;
        bool uneven = sizes->uneven[largest] && !shared;
        d->split[largest] = division_largest(units[largest], *cores, uneven);
        *cores /= d->split[largest];
    }
}

static void distribute_reduced(const loop_graph *loops, const loop_op *op,
                               const division_sizes *sizes, division *d, int64_t cores)
{
    uint32_t best = LOOP_NO_DIM;
    int32_t most = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!loop_var_is_reduced(op, v)) continue;
        if (d->split[v] > 1) return;
        if (!may_combine(loops, op, v)) continue;
        int32_t slices = division_largest(sizes->units[v], cores, false);
        if (slices <= most) continue;
        best = v;
        most = slices;
    }
    if (best == LOOP_NO_DIM) return;
    d->split[best] = most;
    if (division_shares_uneven(op, sizes, d)) d->split[best] = 1;
}

division division_distribute(const loop_graph *loops, const loop_op *op,
                             const division_sizes *sizes, const division *committed)
{
    division d = *committed;
    int64_t cores = loops->cores / division_cores(op, committed);
    distribute_results(op, sizes, &d, &cores);
    distribute_reduced(loops, op, sizes, &d, cores);
    core_numbers_choose(loops, op, &d);
    return d;
}

spyre_status pass_work_distribution(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        if (op->divided_by > LOOP_DIVIDED_BY_SPAN) continue;
        division_sizes sizes = division_sizes_of(loops, op);
        division committed = division_get(op), d;
        d = division_distribute(loops, op, &sizes, &committed);
        division_set(op, &d, op->divided_by ? op->divided_by : LOOP_DIVIDED_BY_DISTRIBUTION);
        *out_changed |= division_cores(op, &d) > 1;
    }
    return NULL;
}
