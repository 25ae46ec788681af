// SPDX-License-Identifier: Apache-2.0
//
// small_ops_first: an op on little data, such as a copy of a bias with another stick, goes in front
// of the large ops before it that have no part in it. Large ops that read each other's results are
// then neighbours, which a core goes through row by row without waiting for others:
//
//     op 0 mean, op 1 sub, op 2 ReStickifyOpHBM [64], op 3 mul
//
// becomes op 2, 0, 1, 3. The obvious shortcut, to move it to the very front, would keep it in LX
// from there on.
#include "front/front.h"
#include "front/ir/loop.h"

#include <string.h>

enum { SMALL_ELEMENTS = 4096, MOST_OPS_BEFORE = 16 };

static bool is_small(const loop_op *op)
{
    int64_t elements = 1;
    for (uint32_t v = 0; v < op->var_count && elements <= SMALL_ELEMENTS; v++)
        elements *= op->extent[v];
    return elements <= SMALL_ELEMENTS;
}

static bool touches(const loop_op *op, uint32_t buffer)
{
    return loop_reads(op, buffer) || loop_result(op)->buffer == buffer;
}

// Whether `later` may run before `earlier`.
static bool are_independent(const loop_op *earlier, const loop_op *later)
{
    return !loop_reads(later, loop_result(earlier)->buffer) &&
           !touches(earlier, loop_result(later)->buffer);
}

// How many of the `count` ops before it the op passes, the last of which is a large one.
static uint32_t count_passed(const loop_op *ops, uint32_t count, const loop_op *op)
{
    uint32_t passed = 0;
    for (uint32_t n = 1; n <= count && n <= MOST_OPS_BEFORE; n++) {
        const loop_op *before = &ops[count - n];
        if (before->tile_depth || !are_independent(before, op)) break;
        if (!is_small(before)) passed = n;
    }
    return passed;
}

spyre_status pass_small_ops_first(loop_graph *loops, bool *out_changed)
{
    loop_op *ops = loops->ops.items;
    for (uint32_t i = 1; i < loops->ops.count; i++) {
        const loop_op op = ops[i];
        if (!is_small(&op) || op.tile_depth) continue;
        const uint32_t passed = count_passed(ops, i, &op);
        if (!passed) continue;
        memmove(&ops[i - passed + 1], &ops[i - passed], passed * sizeof *ops);
        ops[i - passed] = op;
        *out_changed = true;
    }
    return NULL;
}
