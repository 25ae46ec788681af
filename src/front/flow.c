// SPDX-License-Identifier: Apache-2.0
#include "front/flow.h"

static void count_op(const loop_op *op, flow *f)
{
    uint32_t output = op->operand_count - 1, *writer = &f->writer[op->operand[output].buffer];
    *writer = *writer == FLOW_NO_WRITER ? 0 : FLOW_MANY_WRITERS;
    for (uint32_t k = 0; k < output; k++) f->first_use[op->operand[k].buffer + 1]++;
}

spyre_status flow_build(const loop_graph *loops, flow *out)
{
    uint32_t buffers = loops->buffers.count;
    out->writer = ARENA_NEW(loops->memory, uint32_t, buffers);
    out->first_use = ARENA_NEW(loops->memory, uint32_t, buffers + 1);
    uint32_t *next = ARENA_NEW(loops->memory, uint32_t, buffers + 1);
    TRY_ALLOC(out->writer);
    TRY_ALLOC(out->first_use);
    TRY_ALLOC(next);
    for (uint32_t b = 0; b < buffers; b++) out->writer[b] = FLOW_NO_WRITER;
    for (uint32_t i = 0; i < loops->ops.count; i++) count_op(&loops->ops.items[i], out);
    for (uint32_t b = 0; b < buffers; b++)
        next[b + 1] = out->first_use[b + 1] += out->first_use[b];
    out->uses = ARENA_NEW(loops->memory, flow_use, out->first_use[buffers]);
    TRY_ALLOC(out->uses);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t output = op->operand_count - 1, *writer = &out->writer[op->operand[output].buffer];
        if (*writer != FLOW_MANY_WRITERS) *writer = i;
        for (uint32_t k = 0; k < output; k++)
            out->uses[next[op->operand[k].buffer]++] = (flow_use){i, k};
    }
    return NULL;
}
