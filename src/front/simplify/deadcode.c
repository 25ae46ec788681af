// SPDX-License-Identifier: Apache-2.0
//
// deadcode: removes every op whose output buffer reaches no output of the graph. One walk backwards
// suffices: a buffer is needed when an op further down reads it or the graph returns it. A buffer
// written in pieces keeps all its writers.
#include "front/front.h"

spyre_status pass_deadcode(loop_graph *loops, bool *out_changed)
{
    bool *needed = ARENA_NEW(loop_scratch(loops), bool, loops->buffers.count);
    bool *gone = ARENA_NEW(loop_scratch(loops), bool, loops->ops.count);
    TRY_ALLOC(needed);
    TRY_ALLOC(gone);
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        needed[loops->outputs.items[i].buffer] = true;
    for (uint32_t i = loops->ops.count; i-- > 0;) {
        loop_op *op = &loops->ops.items[i];
        gone[i] = !needed[loop_output_of(op)->buffer];
        if (gone[i]) continue;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) needed[op->operand[k].buffer] = true;
    }
    *out_changed = loop_drop_ops(loops, gone);
    return NULL;
}
