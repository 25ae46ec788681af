// SPDX-License-Identifier: Apache-2.0
#include "base/map.h"
#include "card/plan/pass.h"

// Each once: layers of a model use the same bytes, and every write is compared with all of them.
static spyre_status add_exposed(translation *t, map_bytes *known, const lx_ranges *exposed)
{
    for (uint32_t n = 0; n < exposed->count; n++) {
        const lx_range *range = &exposed->items[n];
        uint32_t first, fresh = t->exposed.count;
        TRY(map_bytes_intern(t->scratch, known, range, sizeof *range, fresh, &first));
        if (first == fresh) TRY(VEC_PUSH(t->scratch, &t->exposed, *range));
    }
    return NULL;
}

spyre_status card_pass_find_liveness(translation *t)
{
    map_bytes known = {0};
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
        TRY(add_exposed(t, &known, &found.exposed));
    }
    return NULL;
}
