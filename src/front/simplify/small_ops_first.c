// SPDX-License-Identifier: Apache-2.0
//
// small_ops_first: an op on little data, such as a copy of a bias with another stick, goes in front
// of the large ops before it that have no part in it. Large ops that read each other's results are
// then neighbours, which a core goes through row by row without waiting for others:
//
//     op 0 mean, op 1 sub, op 2 ReStickifyOpHBM [64], op 3 mul
//
// becomes op 2, 0, 1, 3. The obvious shortcut, to move it to the very front, would keep it in LX
// from there on. So does a cast to a narrower format that alone reads what it casts, such as that
// of a gradient behind others: it follows what it reads, of which nothing is kept any longer.
#include "front/front.h"
#include "front/ir/loop.h"

#include <string.h>

enum { SMALL_ELEMENTS = 4096, MOST_OPS_BEFORE = 32 };

static bool is_small(const loop_op *op)
{
    int64_t elements = 1;
    for (uint32_t v = 0; v < op->var_count && elements <= SMALL_ELEMENTS; v++)
        elements *= op->extent[v];
    return elements <= SMALL_ELEMENTS;
}

static bool narrows(const loop_graph *loops, const loop_op *op, const uint32_t *reads)
{
    if (!loop_is_element_wise(op) || op->operand_count != 2) return false;
    const loop_buffer *from = loop_operand_buffer(loops, op, 0);
    const loop_buffer *to = loop_operand_buffer(loops, op, 1);
    return from->kind == LOOP_LOCAL && from->output < 0 && reads[op->operand[0].buffer] == 1 &&
           spyre_format_bytes(to->format) < spyre_format_bytes(from->format);
}

// By buffer: how many operands read it.
static spyre_status count_reads(const loop_graph *loops, uint32_t **out)
{
    TRY_NEW(loop_scratch(loops), *out, loops->buffers.count);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k + 1 < loops->ops.items[i].operand_count; k++)
            (*out)[loops->ops.items[i].operand[k].buffer]++;
    return NULL;
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
    uint32_t *reads;
    TRY(count_reads(loops, &reads));
    for (uint32_t i = 1; i < loops->ops.count; i++) {
        const loop_op op = ops[i];
        if (op.tile_depth || !(is_small(&op) || narrows(loops, &op, reads))) continue;
        const uint32_t passed = count_passed(ops, i, &op);
        if (!passed) continue;
        memmove(&ops[i - passed + 1], &ops[i - passed], passed * sizeof *ops);
        ops[i - passed] = op;
        *out_changed = true;
    }
    return NULL;
}
