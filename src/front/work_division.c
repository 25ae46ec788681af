// SPDX-License-Identifier: Apache-2.0
//
// work_division: divides every op over the cores. Result variables are ranked by size (a stick
// variable counts in sticks); each in turn gets the largest divisor that the cores left allow.
// Reduced variables stay whole: every core finishes its own results. Cores count through the
// slices of the first variable fastest.
#include "front/front.h"

#include "front/emit.h"

static int32_t largest_divisor(int64_t count, int64_t limit)
{
    for (int64_t d = limit < count ? limit : count; d > 1; d--)
        if (count % d == 0) return (int32_t)d;
    return 1;
}

static void divide(const loop_graph *loops, loop_op *op)
{
    int64_t units[LOOP_MAX_VARS];
    bool done[LOOP_MAX_VARS] = {false};
    for (uint32_t v = 0; v < op->var_count; v++) {
        op->split[v] = 1;
        units[v] = loop_output_of(op)->stride[v] ? emit_split_units(loops, op, v) : 1;
    }
    int64_t cores = loops->cores;
    for (uint32_t turn = 0; turn < op->var_count && cores > 1; turn++) {
        uint32_t largest = LOOP_NO_DIM;
        for (uint32_t v = 0; v < op->var_count; v++)
            if (!done[v] && (largest == LOOP_NO_DIM || units[v] > units[largest])) largest = v;
        done[largest] = true;
        op->split[largest] = largest_divisor(units[largest], cores);
        cores /= op->split[largest];
    }
    int32_t stride = 1;
    for (uint32_t v = 0; v < op->var_count; v++) {
        op->core_stride[v] = stride;
        stride *= op->split[v];
    }
}

spyre_status pass_work_division(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        divide(loops, op);
        for (uint32_t v = 0; v < op->var_count; v++) *out_changed |= op->split[v] > 1;
    }
    return NULL;
}
