// SPDX-License-Identifier: Apache-2.0
#include "front/ir/core_numbers.h"

void core_numbers_as_published(const loop_op *op, division *d)
{
    int32_t stride = 1;
    for (int reduced = 1; reduced >= 0; reduced--)
        for (uint32_t v = 0; v < op->var_count; v++) {
            if (loop_var_is_reduced(op, v) != (reduced == 1)) continue;
            d->core_stride[v] = stride;
            stride *= d->split[v];
        }
}

void core_numbers_choose(const loop_graph *loops, const loop_op *op, division *d)
{
    int32_t stride = 1;
    core_numbers_as_published(op, d);
    if (loops->settings.core_id_k_fast_emission) return;
    for (uint32_t v = 0; v < op->var_count; v++) {
        d->core_stride[v] = stride;
        stride *= d->split[v];
    }
}
