// SPDX-License-Identifier: Apache-2.0
#include "ktir/ir/groups.h"

bool groups_has(const ktir_set *set, int64_t group, uint32_t number)
{
    int64_t names[2] = {number, group};
    return ktir_set_holds(set, names);
}

uint32_t groups_of(const ktir_type *future, const ktir_set *set, uint32_t number, uint32_t tiles)
{
    for (uint32_t g = 0; g < tiles; g++) {
        int64_t group = g;
        if (ktir_set_holds(future->groups, &group) && groups_has(set, group, number)) return g;
    }
    return GROUPS_NONE;
}
