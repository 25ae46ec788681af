// SPDX-License-Identifier: Apache-2.0
#include "front/ir/rename.h"

spyre_status rename_begin(const loop_graph *loops, renaming *out)
{
    *out = (renaming){.loops = loops};
    TRY(flow_build(loops, &out->flow));
    TRY_NEW(loop_scratch(loops), out->places, loops->buffers.count);
    for (uint32_t b = 0; b < loops->buffers.count; b++) out->places[b] = b;
    return NULL;
}

void rename_operands(const renaming *r, loop_op *op)
{
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        op->operand[k].buffer = r->places[op->operand[k].buffer];
}

bool rename_may_drop(const renaming *r, uint32_t buffer)
{
    return r->loops->buffers.items[buffer].output < 0 && flow_is_written_once(&r->flow, buffer);
}
