// SPDX-License-Identifier: Apache-2.0
//
// A dim that every access walks by the same nest of loops, as a flattened tensor's is, is as many
// dims: in them a coordinate is one symbol, "c0" and "c1" instead of "10*c0 + c1". Device dims then
// are finer than those of the tensor's layout and mean the same bytes.
#include "front/spec/op_spec_parts.h"

// Parts of a dim, ascending stride; fewer than two: the dim stays whole.
typedef struct {
    uint32_t count;
    loop_dim part[LOOP_MAX_VARS];
} parts;

static bool same_parts(const parts *a, const parts *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->part[i].extent != b->part[i].extent || a->part[i].stride != b->part[i].stride)
            return false;
    return true;
}

static bool moves_in(const loop_buffer *buffer, uint32_t d, int64_t stride)
{
    return stride > 0 && loop_dim_at(buffer, stride) == d;
}

// True when an access starts at the dim's first index and only loops of the op move it there.
static bool starts_whole(const loop_buffer *buffer, uint32_t d, const loop_op *op,
                         const loop_access *access)
{
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (moves_in(buffer, d, access->tile_stride[t])) return false;
    if (loop_is_table(op, access) && moves_in(buffer, d, op->row_stride)) return false;
    return access->offset / buffer->dim[d].stride % buffer->dim[d].extent == 0;
}

// The loops of an access in the dim, when they fill it exactly.
static parts parts_of(const loop_buffer *buffer, uint32_t d, const loop_op *op,
                      const loop_access *access)
{
    parts found = {0};
    int64_t filled = buffer->dim[d].stride;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!moves_in(buffer, d, access->stride[v])) continue;
        uint32_t at = found.count++;
        for (; at > 0 && found.part[at - 1].stride > access->stride[v]; at--)
            found.part[at] = found.part[at - 1];
        found.part[at] = (loop_dim){op->extent[v], access->stride[v]};
    }
    for (uint32_t i = 0; i < found.count; i++) {
        if (found.part[i].stride != filled) return (parts){0};
        filled *= found.part[i].extent;
    }
    bool whole = filled == buffer->dim[d].stride * buffer->dim[d].extent &&
                 starts_whole(buffer, d, op, access);
    return whole ? found : (parts){0};
}

// What all accesses agree on.
static parts parts_of_all(const loop_graph *loops, uint32_t b, uint32_t d)
{
    const loop_buffer *buffer = &loops->buffers.items[b];
    parts all = {0}, one;
    bool any = false;
    bool roomy = buffer->fixed_size && buffer->fixed_size[d] > buffer->dim[d].extent;
    if (d == buffer->stick || roomy) return all;
    for (uint32_t i = buffer->first_op; i <= buffer->last_op && i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            if (op->operand[k].buffer != b) continue;
            one = parts_of(buffer, d, op, &op->operand[k]);
            if (any && !same_parts(&all, &one)) return (parts){0};
            all = one;
            any = true;
        }
    }
    return all;
}

static spyre_status take_sizes_apart(arena *memory, loop_buffer *buffer, uint32_t d,
                                     uint32_t count)
{
    int64_t *size;
    if (!buffer->fixed_size) return NULL;
    TRY(loop_own_sizes(memory, buffer, &size));
    for (uint32_t i = buffer->dim_count; i-- > d + 1;) size[i + count - 1] = size[i];
    for (uint32_t k = 0; k < count; k++) size[d + k] = 0;
    return NULL;
}

static spyre_status take_apart(arena *memory, loop_buffer *buffer, uint32_t d, const parts *of)
{
    uint32_t more = of->count - 1, ordered = 0;
    uint8_t order[LOOP_MAX_DIMS];
    for (uint32_t i = 0; i < buffer->dim_count; i++) {
        uint8_t was = buffer->order[i];
        for (uint32_t k = 0; k < (was == d ? of->count : 1); k++)
            order[ordered++] = (uint8_t)(was > d ? was + more : was + k);
    }
    TRY(take_sizes_apart(memory, buffer, d, of->count));
    for (uint32_t i = buffer->dim_count; i-- > d + 1;) buffer->dim[i + more] = buffer->dim[i];
    for (uint32_t k = 0; k < of->count; k++) buffer->dim[d + k] = of->part[k];
    for (uint32_t i = 0; i < ordered; i++) buffer->order[i] = order[i];
    if (buffer->stick != LOOP_NO_DIM && buffer->stick > d) buffer->stick += (uint8_t)more;
    buffer->dim_count = ordered;
    return NULL;
}

spyre_status op_spec_in_parts(arena *memory, const loop_graph *loops, uint32_t buffer,
                              loop_buffer *out)
{
    *out = loops->buffers.items[buffer];
    for (uint32_t d = out->dim_count; d-- > 0;) {
        parts of = parts_of_all(loops, buffer, d);
        if (of.count > 1 && out->dim_count + of.count <= LOOP_MAX_DIMS)
            TRY(take_apart(memory, out, d, &of));
    }
    return NULL;
}
