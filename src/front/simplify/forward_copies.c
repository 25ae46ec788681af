// SPDX-License-Identifier: Apache-2.0
//
// forward_copies: an element-wise op reads through a copy that it alone reads. Behind
// normalize_loops every access moves within one dim, so the reader's way through the copy's result
// is a way through what the copy read, whatever the order of its dims:
//     b1[128*c0 + 512*c1 + c2] = b0[8192*c1 + 128*c0 + c2]    a clone of permuted dims
//     b2[..] = relu(b1[128*c0 + 512*c1 + c2])                 becomes relu(b0[8192*c1 + ..])
// Where the sticks then disagree, propagate_layouts puts a copy back. Several readers would each
// pay for what one copy pays for all; a matmul is choosy about sticks.
#include "front/front.h"
#include "front/ir/def_use.h"

// What a step along each dim of the copy's result is in the buffer that the copy reads.
typedef struct {
    const loop_op *copy;
    int64_t stride[LOOP_MAX_DIMS];
} way;

static bool is_forwardable(const loop_graph *loops, const def_use *f, const loop_op *op)
{
    if (!loop_is_copy(op)) return false;
    uint32_t id = op->operand[1].buffer;
    const loop_buffer *from = loop_operand_buffer(loops, op, 0);
    const loop_buffer *to = &loops->buffers.items[id];
    return from->kind != LOOP_CONSTANT && !from->replaced_by && to->kind == LOOP_LOCAL &&
           to->output < 0 && loop_same_elements(from, to) && def_use_is_written_once(f, id) &&
           def_use_use_count(f, id) == 1 &&
           (from->kind == LOOP_INPUT || def_use_is_written_once(f, op->operand[0].buffer));
}

// False unless the copy fills its result, one loop a dim.
static bool find_way(const loop_graph *loops, const loop_op *copy, way *out)
{
    const loop_access *from = &copy->operand[0], *to = &copy->operand[1];
    const loop_buffer *b = &loops->buffers.items[to->buffer];
    out->copy = copy;
    if (copy->var_count != b->dim_count || to->offset) return false;
    for (uint32_t d = 0; d < b->dim_count; d++) {
        uint32_t v = 0;
        while (v < copy->var_count &&
               (to->stride[v] != b->dim[d].stride || copy->extent[v] != b->dim[d].extent))
            v++;
        if (v == copy->var_count || !from->stride[v]) return false;
        out->stride[d] = from->stride[v];
    }
    return true;
}

// The reader's access, through the copy; false where a loop leaves its dim.
static bool follow_way(const loop_graph *loops, const way *w, const loop_op *reader,
                       const loop_access *read, loop_access *out)
{
    const loop_buffer *b = &loops->buffers.items[read->buffer];
    int64_t last[LOOP_MAX_DIMS];
    *out = w->copy->operand[0];
    for (uint32_t v = 0; v < LOOP_MAX_VARS; v++) out->stride[v] = 0;
    loop_split_offset(b, read->offset, last);
    for (uint32_t d = 0; d < b->dim_count; d++) out->offset += last[d] * w->stride[d];
    for (uint32_t v = 0; v < reader->var_count; v++) {
        if (!read->stride[v]) continue;
        uint32_t d = loop_dim_at(b, read->stride[v]);
        if (read->stride[v] % b->dim[d].stride) return false;
        int64_t steps = read->stride[v] / b->dim[d].stride;
        out->stride[v] = steps * w->stride[d];
        last[d] += steps * (reader->extent[v] - 1);
    }
    for (uint32_t d = 0; d < b->dim_count; d++)
        if (last[d] >= b->dim[d].extent) return false;
    return true;
}

static bool forward(loop_graph *loops, const def_use *f, const loop_op *copy)
{
    way w;
    loop_access through;
    if (copy->tile_depth || !is_forwardable(loops, f, copy) || !find_way(loops, copy, &w))
        return false;
    const def_use_use *use = &f->uses[f->first_use[copy->operand[1].buffer]];
    loop_op *reader = &loops->ops.items[use->op];
    if (!loop_is_element_wise(reader) || reader->table || reader->tile_depth) return false;
    loop_access *read = &reader->operand[use->operand];
    if (!follow_way(loops, &w, reader, read, &through)) return false;
    if (!loop_walks_evenly(&loops->buffers.items[through.buffer], reader, &through)) return false;
    *read = through;
    return true;
}

// An operand of a copy that goes has a use less, and its reader one more: the counts stay.
// Copies go in order, so that what a copy's reader reads is not taken away later.
spyre_status pass_forward_copies(loop_graph *loops, bool *out_changed)
{
    return def_use_drop_ops(loops, forward, out_changed);
}
