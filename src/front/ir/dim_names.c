// SPDX-License-Identifier: Apache-2.0
#include "front/ir/dim_names.h"

#include <string.h>

typedef VEC(const char *) names;

static bool holds(const names *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i], name) == 0) return true;
    return false;
}

static spyre_status collect(const loop_graph *loops, names *out)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t v = 0; v < op->var_count; v++)
            if (op->dim_name[v] && !holds(out, op->dim_name[v]))
                TRY(VEC_PUSH(loops->memory, out, op->dim_name[v]));
    }
    return NULL;
}

const char *dim_names_in_use(const loop_graph *loops)
{
    names all = {0};
    const char *list = "no loop of the segment has a name";
    spyre_status status = collect(loops, &all);
    for (uint32_t i = 0; i < all.count && list; i++)
        list = i ? arena_printf(loops->memory, "%s, %s", list, all.items[i])
                 : arena_printf(loops->memory, "loops of the segment are named %s", all.items[i]);
    if (!status && list) return list;
    spyre_status_free(status);
    return "out of memory";
}
