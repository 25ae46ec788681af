// SPDX-License-Identifier: Apache-2.0
//
// Invariants of ops, accesses and buffers as such: what build leaves and no pass may lose.
#include <inttypes.h>

#include "front/check/invariant.h"

#define BROKEN(...) status_new(SPYRE_INTERNAL, __VA_ARGS__)

spyre_status invariant_known_buffer(const loop_graph *loops, const loop_op *op,
                                    const loop_access *access)
{
    (void)op;
    if (access->buffer < loops->buffers.count) return NULL;
    return BROKEN("buffer %u of %u", access->buffer, loops->buffers.count);
}

spyre_status invariant_fitting_operands(const loop_graph *loops, const loop_op *op)
{
    (void)loops;
    const opfunc_info *info = opfunc_describe(op->op);
    uint32_t most = info->most_inputs + (op->table ? 1u : 0u);
    if (op->operand_count > info->least_inputs && op->operand_count <= most + 1) return NULL;
    return BROKEN("%u operands with the result, %s takes %u to %u and a result", op->operand_count,
                  info->name, info->least_inputs, most);
}

spyre_status invariant_real_loops(const loop_graph *loops, const loop_op *op)
{
    (void)loops;
    if (op->var_count > LOOP_MAX_VARS) return BROKEN("%u loops", op->var_count);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->extent[v] < 2 || op->split[v] < 1)
            return BROKEN("loop c%u of extent %" PRId64 " in %d slices", v, op->extent[v],
                          op->split[v]);
    return NULL;
}

spyre_status invariant_known_node(const loop_graph *loops, const loop_op *op)
{
    if (op->node < loops->graph->nodes.count) return NULL;
    return BROKEN("node %u of %u", op->node, loops->graph->nodes.count);
}

spyre_status invariant_separate_dims(const loop_graph *loops, const loop_buffer *buffer)
{
    (void)loops;
    int64_t end = 1;
    for (uint32_t d = 0; d < buffer->dim_count; d++) {
        const loop_dim *dim = &buffer->dim[d];
        if (dim->extent < 2 || dim->stride < end)
            return BROKEN("dim %u of extent %" PRId64 " and stride %" PRId64
                          " above dims that end at %" PRId64,
                          d, dim->extent, dim->stride, end);
        end = dim->stride * dim->extent;
    }
    return NULL;
}

spyre_status invariant_numbered_input(const loop_graph *loops, const loop_buffer *buffer)
{
    if (buffer->kind != LOOP_INPUT || buffer->index < loops->graph->inputs.count) return NULL;
    return BROKEN("input %u of %u", buffer->index, loops->graph->inputs.count);
}

spyre_status invariant_local_result(const loop_graph *loops, const loop_op *op)
{
    static const char *const kinds[] = {"an input", "a constant", "local"};
    uint32_t id = loop_result(op)->buffer;
    const loop_buffer *result = &loops->buffers.items[id];
    if (result->kind == LOOP_LOCAL) return NULL;
    if (result->kind == LOOP_INPUT && result->replaced_by) return NULL;
    return BROKEN("b%u %%%s is %s", id, result->name, kinds[result->kind]);
}

// --- Order

spyre_status invariant_written_first(const loop_graph *loops)
{
    bool *written = ARENA_NEW(loops->memory, bool, loops->buffers.count);
    TRY_ALLOC(written);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
            uint32_t id = op->operand[k].buffer;
            if (loops->buffers.items[id].kind == LOOP_LOCAL && !written[id])
                return BROKEN("%s: nothing wrote it", loop_access_place(loops, i, k));
        }
        written[loop_result(op)->buffer] = true;
    }
    return NULL;
}

static spyre_status returned(const loop_graph *loops, const bool *written, uint32_t *owner,
                             uint32_t id)
{
    const loop_buffer *buffer = &loops->buffers.items[id];
    if (buffer->kind != LOOP_LOCAL) return NULL;
    if (!written[id]) return BROKEN("b%u %%%s: nothing writes it", id, buffer->name);
    if (buffer->output < 0 || (uint32_t)buffer->output >= loops->output_buffer_count)
        return BROKEN("b%u %%%s: output buffer %d of %u", id, buffer->name, buffer->output,
                      loops->output_buffer_count);
    uint32_t *first = &owner[buffer->output];
    if (*first != LOOP_UNUSED && *first != id)
        return BROKEN("b%u %%%s and b%u %%%s are both output buffer %d", *first,
                      loops->buffers.items[*first].name, id, buffer->name, buffer->output);
    *first = id;
    return NULL;
}

spyre_status invariant_written_outputs(const loop_graph *loops)
{
    bool *written = ARENA_NEW(loops->memory, bool, loops->buffers.count);
    uint32_t *owner = ARENA_NEW(loops->memory, uint32_t, loops->output_buffer_count);
    TRY_ALLOC(written);
    TRY_ALLOC(owner);
    for (uint32_t o = 0; o < loops->output_buffer_count; o++) owner[o] = LOOP_UNUSED;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        written[loop_output_of(&loops->ops.items[i])->buffer] = true;
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        uint32_t id = loops->outputs.items[i].buffer;
        if (id >= loops->buffers.count)
            return BROKEN("output %u: buffer %u of %u", i, id, loops->buffers.count);
        TRY(status_at(returned(loops, written, owner, id), "output %u", i));
    }
    return NULL;
}

static spyre_status known_loops(const loop_graph *loops, const loop_op *op)
{
    if (op->tile_depth > LOOP_MAX_TILES) return BROKEN("%u counted loops", op->tile_depth);
    for (uint32_t t = 0; t < op->tile_depth; t++) {
        if (op->tiles[t] >= loops->tiles.count)
            return BROKEN("counted loop t%u of %u", op->tiles[t], loops->tiles.count);
        if (loops->tiles.items[op->tiles[t]].count < 2)
            return BROKEN("counted loop t%u of %" PRId64, op->tiles[t],
                          loops->tiles.items[op->tiles[t]].count);
    }
    return NULL;
}

spyre_status invariant_counted_loops(const loop_graph *loops)
{
    bool *opened = ARENA_NEW(loops->memory, bool, loops->tiles.count);
    const loop_op none = {0}, *before = &none;
    TRY_ALLOC(opened);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        spyre_status status = known_loops(loops, op);
        if (status) return status_at(status, "%s", loop_op_place(loops, i));
        for (uint32_t t = loop_shared_tiles(before, op); t < op->tile_depth; t++) {
            if (opened[op->tiles[t]])
                return BROKEN("%s: t%u again", loop_op_place(loops, i), op->tiles[t]);
            opened[op->tiles[t]] = true;
        }
        before = op;
    }
    return NULL;
}

// --- Accesses in host elements

spyre_status invariant_inside_storage(const loop_graph *loops, const loop_op *op,
                                      const loop_access *access)
{
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    int64_t last = access->offset, size = 1;
    for (uint32_t v = 0; v < op->var_count; v++) last += access->stride[v] * (op->extent[v] - 1);
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        size += buffer->dim[d].stride * (buffer->dim[d].extent - 1);
    for (uint32_t t = 0; t < op->tile_depth; t++)
        last += access->tile_stride[t] * (loops->tiles.items[op->tiles[t]].count - 1);
    if (loop_is_table(op, access)) last += op->row_stride * (op->row_count - 1);
    if (access->offset >= 0 && last < size) return NULL;
    return BROKEN("elements %" PRId64 " to %" PRId64 " of %" PRId64, access->offset, last, size);
}

spyre_status invariant_whole_steps(const loop_graph *loops, const loop_op *op,
                                   const loop_access *access)
{
    const loop_buffer *buffer = &loops->buffers.items[access->buffer];
    for (uint32_t v = 0; v < op->var_count; v++) {
        int64_t stride = access->stride[v];
        if (stride == 0) continue;
        if (stride < 0 || buffer->dim_count == 0)
            return BROKEN("c%u moves by %" PRId64 " in %u dims", v, stride, buffer->dim_count);
        uint32_t d = loop_dim_at(buffer, stride);
        if (stride % buffer->dim[d].stride)
            return BROKEN("c%u moves by %" PRId64 ", dim %u has stride %" PRId64, v, stride, d,
                          buffer->dim[d].stride);
    }
    return NULL;
}
