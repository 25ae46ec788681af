// SPDX-License-Identifier: Apache-2.0
#include "front/ir/dim_names.h"

#include <string.h>

typedef VEC(const char *) names;

enum { MOST_NAMES = UINT16_MAX };

spyre_status dim_names_number(loop_graph *loops, const char *name, uint16_t *out_number)
{
    uint32_t n = 0;
    while (n < loops->dim_names.count && strcmp(loops->dim_names.items[n], name) != 0) n++;
    if (n == MOST_NAMES)
        return status_new(SPYRE_UNSUPPORTED, "dim %s: a graph has at most %d names of dims", name,
                          MOST_NAMES);
    if (n == loops->dim_names.count) TRY(VEC_PUSH(loops->memory, &loops->dim_names, name));
    *out_number = (uint16_t)(n + 1);
    return NULL;
}

// In the order in which loops come by them.
static spyre_status collect(const loop_graph *loops, names *out)
{
    bool *found;
    TRY_NEW(loops->memory, found, loops->dim_names.count);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t v = 0; v < op->var_count; v++) {
            if (!op->dim_name[v] || found[op->dim_name[v] - 1]) continue;
            found[op->dim_name[v] - 1] = true;
            TRY(VEC_PUSH(loops->memory, out, dim_names_of(loops, op, v)));
        }
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
