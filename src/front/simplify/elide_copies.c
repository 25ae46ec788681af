// SPDX-License-Identifier: Apache-2.0
//
// elide_copies: what a copy reads is read where it is, when the copy has the same dims in the same
// order: clones, dropout in inference, and integers that become int64, for which the card has 32
// bits whatever they were. Of a copy that leaves the graph, what alone it reads is made where it
// leaves. A copy that changes the format or the order stays, and so does one of an input, whose
// dims no view may cut.
#include "front/front.h"
#include "front/ir/redirect_reads.h"

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

static spyre_status read_source(void *context, const loop_graph *loops, const def_use *f,
                                const loop_op *op, uint32_t *place)
{
    (void)context, (void)f;
    if (is_plain_copy(loops, op)) *place = op->operand[0].buffer;
    return NULL;
}

static bool is_only_returned(const loop_graph *loops, const def_use *f, const loop_op *op)
{
    if (!is_plain_copy(loops, op)) return false;
    const uint32_t from = op->operand[0].buffer, to = op->operand[1].buffer;
    return loops->buffers.items[to].output >= 0 && def_use_is_written_once(f, to) &&
           loop_same_elements(&loops->buffers.items[from], &loops->buffers.items[to]) &&
           def_use_use_count(f, from) == 1 && def_use_use_count(f, to) == 0;
}

// Makes what a copy only returns in the buffer that is returned.
static spyre_status make_where_returned(loop_graph *loops, bool *out_changed)
{
    def_use f;
    TRY(def_use_build(loops, &f));
    bool *gone = ARENA_NEW(loop_scratch(loops), bool, loops->ops.count);
    uint32_t *place = ARENA_NEW(loop_scratch(loops), uint32_t, loops->buffers.count);
    TRY_ALLOC(gone && place);
    for (uint32_t b = 0; b < loops->buffers.count; b++) place[b] = b;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        gone[i] = is_only_returned(loops, &f, op);
        if (gone[i]) place[op->operand[0].buffer] = op->operand[1].buffer;
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_access *result = &loops->ops.items[i].operand[loops->ops.items[i].operand_count - 1];
        if (!gone[i]) result->buffer = place[result->buffer];
    }
    *out_changed = loop_drop_ops(loops, gone);
    return NULL;
}

spyre_status pass_elide_copies(loop_graph *loops, bool *out_changed)
{
    bool returned = false;
    TRY(redirect_reads(loops, read_source, NULL, out_changed));
    TRY(make_where_returned(loops, &returned));
    *out_changed |= returned;
    return NULL;
}
