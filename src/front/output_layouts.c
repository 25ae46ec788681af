// SPDX-License-Identifier: Apache-2.0
//
// output_layouts: what leaves the segment must be describable as a layout of the host tensor's own
// dims. Every output buffer takes back its host dims (the stick on the host dim that it runs along),
// in the order of the default layout where that applies. A buffer whose accesses cut that stick (a
// head of 32 kept in its own stick) is copied into a fresh buffer of the default layout instead.
#include "front/front.h"
#include "front/relayout.h"

// Rebuilds an output buffer on its host dims, the stick on the host dim it runs along.
static void take_host_dims(loop_buffer *buffer)
{
    int64_t stick_stride = buffer->stick == LOOP_NO_DIM ? 0 : buffer->dim[buffer->stick].stride;
    loop_set_dims(buffer);
    uint8_t stick = LOOP_NO_DIM;
    for (uint8_t d = 0; stick_stride && d < buffer->dim_count; d++)
        if (buffer->dim[d].stride <= stick_stride) stick = d;
    loop_set_layout(buffer, stick);
    uint32_t rank = buffer->storage.rank;
    if (stick != LOOP_NO_DIM && rank && buffer->storage.size[rank - 1] > 1 &&
        buffer->dim[stick].stride == buffer->storage.stride[rank - 1])
        front_set_default_order(buffer);
}

// Marks output buffers whose new layout some access cannot be expressed in.
static void find_misfits(const loop_graph *loops, bool *misfit)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            uint32_t id = op->operand[k].buffer;
            if (loops->buffers.items[id].output < 0) continue;
            loop_location now;
            if (loop_locate(loops, op, &op->operand[k], &now))
                misfit[id] = true;
            else if (k + 1 == op->operand_count && now.stick_var != op->stick)
                misfit[id] = true;
        }
    }
}

// Appends a copy of buffer `id` into a new output buffer of the default layout.
static spyre_status copy_out(relayouter *r, uint32_t id, const loop_op *near)
{
    loop_graph *loops = r->loops;
    const loop_buffer from = loops->buffers.items[id];
    uint32_t target;
    TRY(loop_add_local(loops, from.name, from.dtype, from.format, &from.storage, &target));
    loop_buffer *to = &loops->buffers.items[target];
    loop_op op = {.op = OPFUNC_IDENTITY,
                  .name = from.name,
                  .operand_count = 2,
                  .stick = LOOP_NO_DIM,
                  .location = near ? near->location : NULL,
                  .node = near ? near->node : 0};
    op.operand[0].buffer = id;
    op.operand[1].buffer = target;
    for (uint32_t d = to->dim_count; d-- > 0;) {
        uint32_t v = op.var_count++;
        op.split[v] = 1;
        op.extent[v] = to->dim[d].extent;
        op.operand[0].stride[v] = op.operand[1].stride[v] = to->dim[d].stride;
    }
    uint8_t stick = to->dim_count ? 0 : LOOP_NO_DIM;
    loop_set_layout(to, stick);
    take_host_dims(to);
    op.stick = op.var_count ? (uint8_t)(op.var_count - 1) : LOOP_NO_DIM;
    to->output = from.output;
    loops->buffers.items[id].output = -1;
    TRY(relayout_operand(r, &op, 0, op.stick));
    TRY(VEC_PUSH(loops->memory, r->ops, op));
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        if (loops->outputs.items[i].buffer == id) loops->outputs.items[i].buffer = target;
    return NULL;
}

spyre_status pass_output_layouts(loop_graph *loops, bool *out_changed)
{
    uint32_t count = loops->buffers.count;
    bool *misfit = ARENA_NEW(loops->memory, bool, count);
    loop_buffer *before = ARENA_NEW(loops->memory, loop_buffer, count);
    TRY_ALLOC(misfit);
    TRY_ALLOC(before);
    for (uint32_t b = 0; b < count; b++) {
        loop_buffer *buffer = &loops->buffers.items[b];
        before[b] = *buffer;
        if (buffer->output >= 0 && buffer->has_layout) take_host_dims(buffer);
    }
    find_misfits(loops, misfit);
    relayouter r = {.loops = loops, .ops = (loop_op_list *)(void *)&loops->ops};
    *out_changed = loops->output_buffer_count > 0;
    for (uint32_t b = 0; b < count; b++) {
        if (!misfit[b]) continue;
        loops->buffers.items[b] = before[b];
        const loop_op *near = loops->ops.count ? &loops->ops.items[loops->ops.count - 1] : NULL;
        TRY(copy_out(&r, b, near));
    }
    return NULL;
}
