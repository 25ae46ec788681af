// SPDX-License-Identifier: Apache-2.0
//
// lx_planning: completes the plan of a graph whose ops are divided: which buffers stay in the
// cores' LX, which copies of others do, and where (plan.h).
#include "front/front.h"
#include "front/plan/plan.h"

spyre_status pass_lx_planning(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    if (!loops->settings.lx_planning) return NULL;
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = plan_complete(loops, scratch);
    arena_destroy(scratch);
    *out_changed = true;
    return status;
}
