// SPDX-License-Identifier: Apache-2.0
//
// follow_plan: a graph of a smaller size takes the plan of the largest one, so that their programs
// differ in numbers only and one serves both (compile/sizes/size_rules.h). Planned by itself it
// would often be divided otherwise, or keep other buffers in LX. Slices of a smaller size are
// smaller and have room where the larger ones lie. Whether the plan is one here, too, the
// invariants say: where slices are no whole numbers, say, the graph is planned by itself.
#include "base/log.h"
#include "front/check/invariant.h"
#include "front/front.h"
#include "front/plan/plan_text.h"
#include "front/plan/plan.h"

// SPYRE_INTERNAL: it breaks an invariant.
static spyre_status check(loop_graph *trial, bool *out_holds)
{
    trial->stage = STAGE_lx_planning;
    spyre_status status = loop_verify(trial);
    *out_holds = !status;
    if (spyre_status_code(status) != SPYRE_INTERNAL) return status;
    log_info("another size's plan: %s", spyre_status_message(status));
    spyre_status_free(status);
    return NULL;
}

// Divisions are given, and another loop may have as many iterations as a symbolic one.
static void forget_granules(loop_graph *loops)
{
    loops->settings.symbolic_size = loops->settings.second_symbolic_size = 0;
}

spyre_status pass_follow_plan(loop_graph *loops, bool *out_changed)
{
    loop_graph trial;
    *out_changed = false;
    if (!loops->handed_plan || loops->user.run || loops->tiles.count) return NULL;
    TRY(loop_copy(loops, loop_scratch(loops), &trial));
    forget_granules(&trial);
    TRY(plan_text_read(&trial, out_changed));
    if (*out_changed) TRY(check(&trial, out_changed));
    if (!*out_changed) return NULL;
    loops->follows = true;
    forget_granules(loops);
    return plan_adopt(loops, &trial);
}
