// SPDX-License-Identifier: Apache-2.0
#include "card/plan/pass.h"

spyre_status card_pass_find_liveness(translation *t)
{
    TRY_NEW(t->scratch, t->accesses, t->loaded->phases.count);
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        const plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        lx_summary found;
        if (!kernel) continue;
        lx_access_list *accesses = &t->accesses[kernel->order];
        TRY(lx_collect(t->scratch, t->program, t->tiles, kernel, accesses));
        TRY(lx_summarise(t->scratch, accesses, kernel, &found));
        TRY(VEC_PUSH(t->scratch, &t->lx, found));
        TRY(temporary_collect(t->scratch, t->program, kernel, &t->temporary));
        for (uint32_t r = 0; r < found.exposed.count; r++)
            TRY(VEC_PUSH(t->scratch, &t->exposed, found.exposed.items[r]));
    }
    return NULL;
}
