// SPDX-License-Identifier: Apache-2.0
//
// reroll_steps: a loop that reaches the compiler step by step (for_each_tile traces each of them)
// is one counted loop again. Steps carry a mark, "@5" of 16 in scope 3. Where they are not the same
// kernels on tiles that are evenly apart, they stay as they are, which computes the same. Carrying
// a loop through all stages before this one would be the other way; then every pass needs to know
// of values that iterations hand on.
#include <stdlib.h>

#include "base/log.h"
#include "front/front.h"
#include "front/reroll/reroll.h"
#include "front/tile/tiling.h"
#include "graph/hint.h"

// The innermost step that the op belongs to; false when it is in none.
static bool step_of(const loop_graph *loops, const loop_op *op, hint_tiles *out)
{
    const char *at = tile_scopes_of(loops, op);
    hint_tiles hint;
    bool found = false;
    while (hint_next_tiles(&at, &hint)) {
        if (!hint_is_step(&hint)) continue;
        *out = hint;
        found = true;
    }
    return found;
}

static spyre_status find_steps(reroll *r, arena *memory)
{
    TRY_NEW(memory, r->step_of, r->loops->ops.count);
    for (uint32_t i = 0; i < r->loops->ops.count; i++) {
        hint_tiles hint;
        r->step_of[i] = SPYRE_NO_ID;
        if (!step_of(r->loops, &r->loops->ops.items[i], &hint) || hint.scope != r->scope) continue;
        int64_t step = strtoll(hint.name + 1, NULL, 10);
        if (step >= 0 && step < r->steps && hint.count == r->steps)
            r->step_of[i] = (uint32_t)step;
        else
            reroll_refuse(r, i, "its steps are not numbered");
    }
    return NULL;
}

static spyre_status reroll_loop(loop_graph *loops, const hint_tiles *hint, arena *scratch,
                                bool *out_rolled)
{
    reroll r = {.loops = loops, .scope = hint->scope, .steps = (uint32_t)hint->count};
    loop_graph trial;
    TRY(def_use_build(loops, &r.f));
    TRY(find_steps(&r, scratch));
    if (!r.why_not) TRY(reroll_match(&r, scratch));
    if (!r.why_not) {
        TRY(loop_copy(loops, loops->memory, &trial));
        TRY(reroll_build(&r, &trial));
    }
    *out_rolled = !r.why_not;
    if (*out_rolled)
        *loops = trial;
    else
        log_info("the %u steps of a loop stay apart: %s: %s", r.steps,
                 loop_op_place(loops, r.why_op), r.why_not);
    return NULL;
}

spyre_status pass_reroll_steps(loop_graph *loops, bool *out_changed)
{
    int64_t done = 0; // scopes grow, so do those of the ops
    *out_changed = false;
    for (bool more = true; more;) {
        hint_tiles next = {0}, hint;
        more = false;
        for (uint32_t i = 0; i < loops->ops.count; i++) {
            if (!step_of(loops, &loops->ops.items[i], &hint) || hint.scope <= done) continue;
            if (!more || hint.scope < next.scope) next = hint;
            more = true;
        }
        if (!more) break;
        done = next.scope;
        bool rolled = false;
        if (next.count < 2 || next.count > loops->ops.count) continue;
        TRY(reroll_loop(loops, &next, loop_scratch(loops), &rolled));
        *out_changed |= rolled;
    }
    if (*out_changed) tile_mark_unrolled(loops);
    return NULL;
}
