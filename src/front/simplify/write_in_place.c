// SPDX-License-Identifier: Apache-2.0
//
// write_in_place: an output that replaces the contents of an input (loop_buffer.replaced_by) is
// written where the input is, by the ops that compute it. A copy of the input's elements to where
// they are goes; so of a cache that gets a few new rows only these are written. Late, because only
// now is it known that the layouts are the same and that no op reads old elements once there are
// new ones. In one op, loads of a tile may run ahead of stores of another one, so it may read the
// old contents only where it writes. Where it cannot be, the output stays a buffer, which the
// caller copies.
#include "front/front.h"

#include <string.h>

typedef struct {
    loop_graph *loops;
    uint32_t input, output; // buffers
    uint32_t first_write;   // position among the ops; LOOP_UNUSED: only copies of what is there
} update;

static bool same_layout(const loop_buffer *a, const loop_buffer *b)
{
    int64_t a_strides[LOOP_MAX_DIMS], b_strides[LOOP_MAX_DIMS], a_bytes, b_bytes;
    if (!a->has_layout || !b->has_layout || a->exx2 != b->exx2 || a->stick != b->stick ||
        !loop_same_elements(a, b) || !loop_same_dims(a, b))
        return false;
    loop_device_strides(a, a_strides, &a_bytes);
    loop_device_strides(b, b_strides, &b_bytes);
    for (uint32_t d = 0; d < a->dim_count; d++) {
        bool one_tile = d == a->stick && a->dim[d].extent <= loop_lanes(a);
        if (!one_tile && a_strides[d] != b_strides[d]) return false;
    }
    return a_bytes == b_bytes;
}

static bool same_place(const loop_op *op, const loop_access *a, const loop_access *b)
{
    return a->offset == b->offset &&
           memcmp(a->stride, b->stride, op->var_count * sizeof a->stride[0]) == 0 &&
           memcmp(a->tile_stride, b->tile_stride, op->tile_depth * sizeof a->tile_stride[0]) == 0;
}

static bool writes(const update *u, const loop_op *op)
{
    return loop_result(op)->buffer == u->output;
}

// A copy of old elements to where they are.
static bool is_idle(const update *u, const loop_op *op)
{
    return loop_is_copy(op) && writes(u, op) && op->operand[0].buffer == u->input &&
           same_place(op, &op->operand[0], &op->operand[1]);
}

// Whether the op, at position `at`, reads no old element that may be gone.
static bool reads_in_time(const update *u, uint32_t at)
{
    const loop_op *op = &u->loops->ops.items[at];
    const loop_access *result = loop_result(op);
    if (is_idle(u, op)) return true;
    bool writes_there = at == u->first_write && loop_is_element_wise(op);
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        if (op->operand[k].buffer != u->input) continue;
        bool before = at < u->first_write;
        if (!before && !(writes_there && same_place(op, &op->operand[k], result))) return false;
    }
    return true;
}

// A loop around a reader and a writer that are not one op runs the reader again after the writer.
static bool shares_loop(const update *u, const loop_op *reader)
{
    for (uint32_t i = u->first_write; i < u->loops->ops.count; i++) {
        const loop_op *writer = &u->loops->ops.items[i];
        if (writer != reader && writes(u, writer) && !is_idle(u, writer) &&
            loop_shared_tiles(reader, writer))
            return true;
    }
    return false;
}

static bool is_in_order(update *u)
{
    const loop_op_list *ops = &u->loops->ops;
    u->first_write = LOOP_UNUSED;
    for (uint32_t i = ops->count; i-- > 0;)
        if (writes(u, &ops->items[i]) && !is_idle(u, &ops->items[i])) u->first_write = i;
    for (uint32_t i = 0; i < ops->count; i++) {
        const loop_op *op = &ops->items[i];
        if (!loop_reads(op, u->input) || is_idle(u, op)) continue;
        if (!reads_in_time(u, i) || shares_loop(u, op)) return false;
    }
    return true;
}

// The old and the new contents lie alike, and the input is the only reader of the new ones.
static bool lie_alike(const update *u, const loop_output *output)
{
    const loop_graph *loops = u->loops;
    const loop_buffer *from = &loops->buffers.items[u->output];
    for (uint32_t o = 0; o < loops->outputs.count; o++)
        if (&loops->outputs.items[o] != output && loops->outputs.items[o].buffer == u->output)
            return false;
    return from->kind == LOOP_LOCAL && from->output >= 0 && !from->tile_depth &&
           same_layout(from, &loops->buffers.items[u->input]);
}

static void apply(const update *u, loop_output *output)
{
    loop_graph *loops = u->loops;
    uint32_t kept = 0;
    int32_t place = loops->buffers.items[u->output].output;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        if (is_idle(u, &op)) continue;
        for (uint32_t k = 0; k < op.operand_count; k++)
            if (op.operand[k].buffer == u->output) op.operand[k].buffer = u->input;
        loops->ops.items[kept++] = op;
    }
    loops->ops.count = kept;
    output->buffer = u->input;
    loops->buffers.items[u->input].walked |= loops->buffers.items[u->output].walked;
    loops->buffers.items[u->output].output = -1;
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].output > place) loops->buffers.items[b].output--;
    loops->output_buffer_count--;
}

spyre_status pass_write_in_place(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (!buffer->replaced_by) continue;
        loop_output *output = &loops->outputs.items[buffer->replaced_by - 1];
        update u = {.loops = loops, .input = b, .output = output->buffer};
        if (!lie_alike(&u, output) || !is_in_order(&u)) continue;
        apply(&u, output);
        *out_changed = true;
    }
    loop_find_live_ranges(loops);
    return NULL;
}
