// SPDX-License-Identifier: Apache-2.0
//
// elide_copies: what a copy reads is read where it is, when the copy has the same dims in the same
// order: clones, and dropout in inference. A copy that leaves the graph, changes the format or the
// order stays, and so does one of an input, whose dims no view may cut.
#include "front/front.h"
#include "front/ir/rename.h"

#include <string.h>

static bool is_plain_copy(const loop_graph *loops, const loop_op *op)
{
    const loop_buffer *from = &loops->buffers.items[op->operand[0].buffer];
    const loop_buffer *to = &loops->buffers.items[op->operand[1].buffer];
    return loop_is_copy(op) && from->kind == LOOP_LOCAL && from->output < 0 &&
           loop_same_elements(from, to) && loop_same_dims(from, to) &&
           op->operand[0].offset == op->operand[1].offset &&
           memcmp(op->operand[0].stride, op->operand[1].stride, sizeof op->operand[0].stride) == 0;
}

spyre_status pass_elide_copies(loop_graph *loops, bool *out_changed)
{
    renaming r;
    uint32_t kept = 0;
    TRY(rename_begin(loops, &r));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        rename_operands(&r, &op);
        uint32_t result = loop_result(&op)->buffer;
        if (is_plain_copy(loops, &op) && rename_may_drop(&r, result))
            r.places[result] = op.operand[0].buffer;
        else
            loops->ops.items[kept++] = op;
    }
    *out_changed = kept != loops->ops.count;
    loops->ops.count = kept;
    return NULL;
}
