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
    *out_changed = true;
    return plan_complete(loops, loop_scratch(loops));
}
