// SPDX-License-Identifier: Apache-2.0
#include "front/memory/lx_trial.h"

#include "front/cost/cost.h"
#include "front/front.h"

bool lx_trial_take(loop_graph *loops, const division *divisions, uint32_t begin, uint32_t end)
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

static spyre_status plan(loop_graph *loops, double *out_us)
{
    static const struct {
        const char *name;
        front_pass run;
    } passes[] = {{"boundary_clones", pass_boundary_clones},
                  {"lx_relayout", pass_lx_relayout},
                  {"lx_planning", pass_lx_planning}};
    for (uint32_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        bool changed;
        if (!front_skips(&loops->settings, passes[i].name)) TRY(passes[i].run(loops, &changed));
    }
    *out_us = cost_of_graph(loops);
    return NULL;
}

spyre_status lx_trial_us(const loop_graph *loops, const division *divisions, uint32_t begin,
                         uint32_t end, double *out_us)
{
    loop_graph copy;
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = loop_copy(loops, scratch, &copy);
    if (!status) lx_trial_take(&copy, divisions, begin, end);
    if (!status) status = plan(&copy, out_us);
    arena_destroy(scratch);
    return status;
}
