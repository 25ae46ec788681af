// SPDX-License-Identifier: Apache-2.0
//
// elide_copies: what a copy reads is read where it is, when the copy has the same dims in the same
// order: clones, dropout in inference, and integers that become int64, for which the card has 32
// bits whatever they were. A copy that leaves the graph, changes the format or the order stays, and
// so does one of an input, whose dims no view may cut.
#include "front/front.h"
#include "front/ir/rename.h"

#include <string.h>

static bool keeps_numbers(const loop_buffer *from, const loop_buffer *to)
{
    return loop_same_elements(from, to) ||
           (from->format == SPYRE_FORMAT_IEEE_INT32 && to->format == from->format &&
            to->dtype == SPYRE_DTYPE_I64);
}

static bool is_plain_copy(const loop_graph *loops, const loop_op *op)
{
    const loop_buffer *from = loop_operand_buffer(loops, op, 0);
    const loop_buffer *to = loop_operand_buffer(loops, op, 1);
    return loop_is_copy(op) && from->kind == LOOP_LOCAL && from->output < 0 &&
           keeps_numbers(from, to) && loop_same_dims(from, to) &&
           op->operand[0].offset == op->operand[1].offset &&
           memcmp(op->operand[0].stride, op->operand[1].stride, sizeof op->operand[0].stride) == 0;
}

static spyre_status read_source(void *context, const loop_graph *loops, const flow *f,
                                const loop_op *op, uint32_t *place)
{
    (void)context, (void)f;
    if (is_plain_copy(loops, op)) *place = op->operand[0].buffer;
    return NULL;
}

spyre_status pass_elide_copies(loop_graph *loops, bool *out_changed)
{
    return rename_results(loops, read_source, NULL, out_changed);
}
