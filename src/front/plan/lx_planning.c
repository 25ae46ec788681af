// SPDX-License-Identifier: Apache-2.0
//
// lx_planning: completes the plan of a graph whose ops are divided, as trials of other plans do
// (plan_complete() in plan.c): which buffers stay in the cores' LX and where (lx_places.c), which
// copies of others do (boundary_copies.c, lx_shuffles.c). Copies of tiles that found no place there
// go: they would cost what they were to save.
#include "front/front.h"
#include "front/plan/plan_text.h"
#include "front/plan/lx_copies.h"
#include "front/plan/plan.h"

spyre_status pass_lx_planning(loop_graph *loops, bool *out_changed)
{
    *out_changed = loops->settings.lx_planning;
    if (*out_changed) {
        TRY(plan_complete(loops, loop_scratch(loops)));
        TRY(lx_copies_forward(loops));
    }
    return loops->settings.symbolic_size ? plan_text_print(loops) : NULL;
}
