// SPDX-License-Identifier: Apache-2.0
//
// Which layout of an input would have saved a copy of it. Where the only reader of an input is a
// restickify of all of it (the weight of a product that reads it transposed), the input might as
// well come in the layout of that copy:
//
//     buffer b1 input dims(64:1 256:64) layout(0 1 0*)       // weight, stick along 64
//     op 0 ReStickifyOpHBM   b3[64*c0 + 1*c1] = b1[64*c0 + 1*c1]
//     buffer b3 local dims(64:1 256:64) layout(1 0 1*)       // preferred for b1: stick along 256
//
// Not where a copy in LX is much larger: an image of 3 channels, whose sticks run along these for a
// while, would be read in memory with all their padding, and is copied to LX without.
#include "front/front.h"

#include <string.h>

enum { MOST_GROWTH = 8 };

// The only op that reads the buffer, when it does so once; else null.
static const loop_op *only_reader(const loop_graph *loops, uint32_t buffer)
{
    const loop_op *reader = NULL;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            if (op->operand[k].buffer != buffer) continue;
            if (reader || k + 1 == op->operand_count) return NULL;
            reader = op;
        }
    }
    return reader;
}

// Whether a copy takes every element to where the same element is in a buffer of the same dims.
static bool copies_all(const loop_op *op, const loop_buffer *source)
{
    const loop_access *from = &op->operand[0], *to = &op->operand[1];
    int64_t copied = 1, all = 1;
    if (from->offset || to->offset || op->tile_depth) return false;
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (from->stride[v] != to->stride[v] || !from->stride[v]) return false;
        copied *= op->extent[v];
    }
    for (uint32_t d = 0; d < source->dim_count; d++) all *= source->dim[d].extent;
    return copied == all;
}

static spyre_status prefer(const loop_graph *loops, uint32_t buffer, spyre_layout *out)
{
    const loop_buffer *source = &loops->buffers.items[buffer];
    const loop_op *op = only_reader(loops, buffer);
    if (!op || op->op != OPFUNC_RESTICKIFY || op->operand_count != 2) return NULL;
    uint32_t made = op->operand[1].buffer;
    const loop_buffer *copy = &loops->buffers.items[made];
    if (copy->kind != LOOP_LOCAL || copy->output >= 0 || loop_is_returned(loops, made)) return NULL;
    if (source->replaced_by || loop_is_returned(loops, buffer)) return NULL;
    if (source->format != copy->format || !loop_same_dims(source, copy)) return NULL;
    if (!copies_all(op, source)) return NULL;
    loop_buffer moved = *source;
    moved.fixed_size = NULL;
    moved.kind = LOOP_LOCAL;
    moved.stick = copy->stick;
    memcpy(moved.order, copy->order, sizeof moved.order);
    spyre_layout now, other;
    TRY(front_buffer_layout(source, &now));
    TRY(front_buffer_layout(&moved, &other));
    const bool grows = spyre_layout_bytes(&other) > MOST_GROWTH * spyre_layout_bytes(&now);
    if (!copy->in_lx || !grows) *out = other;
    return NULL;
}

spyre_status front_preferred_layout(const loop_graph *loops, uint32_t input, spyre_layout *out)
{
    *out = (spyre_layout){.rank = 0};
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind == LOOP_INPUT && buffer->index == input) return prefer(loops, b, out);
    }
    return NULL;
}
