// SPDX-License-Identifier: Apache-2.0
//
// Invariants of the loop IR after every pass. A broken one is our fault, so the code is INTERNAL.
#include "front/front.h"

#include <inttypes.h>

static spyre_status broken(const loop_graph *loops, uint32_t op, const char *rule)
{
    return status_new(SPYRE_INTERNAL, "%s: %s", loop_op_place(loops, op), rule);
}

static spyre_status verify_access(const loop_graph *loops, uint32_t index, uint32_t k)
{
    const loop_op *op = &loops->ops.items[index];
    const loop_access *access = &op->operand[k];
    if (access->buffer >= loops->buffers.count) return broken(loops, index, "no such buffer");
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t last = access->offset, size = 1;
    for (uint32_t v = 0; v < op->var_count; v++) last += access->stride[v] * (op->extent[v] - 1);
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        size += buffer->dim[d].stride * (buffer->dim[d].extent - 1);
    if (op->gather && k == 1) last += op->row_stride * (op->row_count - 1);
    if (access->offset < 0 || last >= size)
        return broken(loops, index, "an access leaves the host storage of its buffer");
    if (buffer->has_layout && op->stick != LOOP_NO_DIM && k + 1 == op->operand_count) {
        loop_location place;
        if (loop_locate(loops, op, access, &place) || place.stick_var != op->stick)
            return broken(loops, index, "the result does not carry its stick along the op's");
    }
    return NULL;
}

static spyre_status verify_op(const loop_graph *loops, uint32_t index, bool *written)
{
    const loop_op *op = &loops->ops.items[index];
    const opfunc_info *info = opfunc_describe(op->op);
    uint32_t inputs = op->operand_count - 1, most = info->most_inputs + (op->gather ? 1u : 0u);
    if (op->operand_count < 1 || inputs < info->least_inputs || inputs > most)
        return broken(loops, index, "the operand count does not fit the opfunc");
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (op->extent[v] < 2 || op->split[v] < 1)
            return broken(loops, index,
                          "a loop variable needs an extent of 2 and a split of 1 or more");
        if (op->split[v] > 1 && op->core_stride[v] < 1)
            return broken(loops, index, "a split variable without its stride in core numbers");
    }
    for (uint32_t k = 0; k < op->operand_count; k++) {
        TRY(verify_access(loops, index, k));
        uint32_t id = op->operand[k].buffer;
        if (k < inputs && loops->buffers.items[id].kind == LOOP_LOCAL && !written[id])
            return broken(loops, index, "an operand is read before it is written");
    }
    const loop_buffer *result = &loops->buffers.items[op->operand[inputs].buffer];
    if (result->kind != LOOP_LOCAL) return broken(loops, index, "a result must be a local buffer");
    written[op->operand[inputs].buffer] = true;
    return NULL;
}

spyre_status loop_verify(const loop_graph *loops)
{
    bool *written = ARENA_NEW(loops->memory, bool, loops->buffers.count);
    TRY_ALLOC(written);
    for (uint32_t i = 0; i < loops->ops.count; i++) TRY(verify_op(loops, i, written));
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        uint32_t id = loops->outputs.items[i].buffer;
        const loop_buffer *buffer = &loops->buffers.items[id];
        if (buffer->kind == LOOP_LOCAL && !written[id])
            return status_new(SPYRE_INTERNAL, "output %u (%s) is never written", i, buffer->name);
    }
    return NULL;
}
