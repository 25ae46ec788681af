// SPDX-License-Identifier: Apache-2.0
//
// output_layouts: what leaves the segment must be describable as a layout of the host tensor's own
// dims. Every output buffer takes back its host dims (the stick on the host dim that it runs
// along), in the order of the default layout where that applies, in that of the input whose
// contents it replaces where both have one stick (write_in_place). A buffer whose accesses cut
// that stick (a head of 32 kept in its own stick), or whose stick may not leave (front_may_leave),
// takes the dims of the tensor that leaves, when that is all of it in another shape; else it is
// copied into a fresh buffer of the default layout. So is what a reduction leaves with one element
// a stick, where it is long.
#include "front/front.h"
#include "front/ir/lx_slices.h"
#include "front/layout/restickify.h"
#include "graph/view.h"

#include <string.h>

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

// Lies a buffer out like the input that it replaces, if there is one and the same dim is its stick.
static void take_order_of_replaced(const loop_graph *loops, loop_buffer *buffer)
{
    uint32_t id = loop_replaced_input(loops, (uint32_t)(buffer - loops->buffers.items));
    if (id == LOOP_UNUSED) return;
    const loop_buffer *input = &loops->buffers.items[id];
    if (input->has_layout && input->stick == buffer->stick && loop_same_dims(input, buffer))
        memcpy(buffer->order, input->order, sizeof buffer->order);
}

bool front_may_leave(const loop_graph *loops, const loop_buffer *buffer, int64_t stride)
{
    const spyre_view *host = &buffer->storage;
    uint32_t id = (uint32_t)(buffer - loops->buffers.items);
    if (!loops->settings.default_results || host->rank == 0) return true;
    if (host->size[host->rank - 1] == 1 || stride == host->stride[host->rank - 1]) return true;
    return loop_replaced_input(loops, id) != LOOP_UNUSED;
}

bool front_leaves_as(const loop_graph *loops, uint32_t id, spyre_view *out_view)
{
    const spyre_view *view = NULL, *storage = &loops->buffers.items[id].storage;
    if (loop_replaced_input(loops, id) != LOOP_UNUSED) return false;
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        if (loops->outputs.items[i].buffer != id) continue;
        if (view) return false;
        view = &loops->outputs.items[i].view;
    }
    if (!view) return false;
    *out_view = view_contiguous(view->size, view->rank);
    return view_same(view, out_view) && view_element_count(view) == view_element_count(storage);
}

static bool may_leave(const loop_graph *loops, uint32_t id)
{
    const loop_buffer *buffer = &loops->buffers.items[id];
    if (buffer->output < 0 || !buffer->has_layout) return true;
    int64_t stride = buffer->stick == LOOP_NO_DIM ? 0 : buffer->dim[buffer->stick].stride;
    return front_may_leave(loops, buffer, stride);
}

// Whether a result with one element a stick leaves in full sticks: where every core has elements
// for one, all in LX, filling them takes less time than writing a stick an element.
static bool is_worth_packing(const loop_graph *loops, uint32_t id)
{
    const loop_buffer *buffer = &loops->buffers.items[id];
    if (buffer->output < 0 || !buffer->has_layout || buffer->stick != LOOP_NO_DIM) return false;
    if (loop_replaced_input(loops, id) != LOOP_UNUSED || !loops->settings.lx_planning) return false;
    enum { ROOM_PART = 4 };             // of LX: the rest is for what the op reads
    int64_t elements = 1, room = lx_limit_bytes(loops) * loops->cores / ROOM_PART;
    for (uint32_t d = 0; d < buffer->dim_count; d++) elements *= buffer->dim[d].extent;
    return elements >= loops->cores * loop_lanes(buffer) && elements * SPYRE_STICK_BYTES <= room;
}

enum { NOT_LOCATED = LOOP_NO_DIM - 1 };

// The stick variable of every access to an output buffer, in order of ops and operands.
static void find_sticks(const loop_graph *loops, uint8_t *out)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_location place;
            if (loop_operand_buffer(loops, op, k)->output < 0) continue;
            bool located = !loop_locate(loops, op, &op->operand[k], &place);
            out[i * LOOP_MAX_OPERANDS + k] = located ? place.stick_var : NOT_LOCATED;
        }
    }
}

// Gives a copy whose loops run over dims of its source that do not follow each other a loop for
// each dim, but for the loop of the sticks that are to be filled.
static spyre_status follow_source_dims(loop_graph *loops, loop_op *op)
{
    const loop_access *from = &op->operand[0];
    const loop_buffer *source = &loops->buffers.items[from->buffer];
    loop_location place;
    if (!loop_locate(loops, op, from, &place)) return NULL;
    for (uint32_t v = 0; v < op->var_count && op->var_count < LOOP_MAX_VARS; v++) {
        if (v == op->stick || from->stride[v] <= 0) continue;
        const loop_dim *dim = &source->dim[loop_dim_at(source, from->stride[v])];
        int64_t inner = dim->stride * dim->extent / from->stride[v];
        if (inner <= 1 || inner >= op->extent[v] || op->extent[v] % inner) continue;
        TRY(loop_split_var(loops, op, v, inner));
    }
    return NULL;
}

// Appends a copy of buffer `id` into a new output buffer of the default layout. `writer` is an op
// that fills `id`: it takes the blame when the copy cannot be expressed.
static spyre_status copy_out(restickifier *r, uint32_t id, const loop_op *writer,
                             uint32_t *out_target)
{
    loop_graph *loops = r->loops;
    const loop_buffer from = loops->buffers.items[id];
    *loops->at_node = writer->node;
    TRY(loop_add_local(loops, from.name, from.dtype, from.format, &from.storage, out_target));
    loop_buffer *to = &loops->buffers.items[*out_target];
    loop_set_layout(to, to->dim_count ? 0 : LOOP_NO_DIM);
    loop_op op = loop_over_dims(writer, OPFUNC_IDENTITY, to);
    op.operand[0].buffer = id;
    op.operand[1].buffer = *out_target;
    take_host_dims(to);
    to->output = from.output;
    loops->buffers.items[id].output = -1;
    TRY(follow_source_dims(loops, &op));
    TRY(restickify_operand(r, &op, 0, op.stick));
    return VEC_PUSH(loops->memory, r->ops, op);
}

// Copies out every buffer an access of which changed its stick (0: none, else op + 1 of a writer).
static spyre_status copy_misfits(loop_graph *loops, const loop_buffer *before, uint32_t count,
                                 const uint32_t *misfit)
{
    restickifier r = {.loops = loops, .ops = &loops->ops};
    uint32_t *target = ARENA_NEW(loop_scratch(loops), uint32_t, count);
    TRY_ALLOC(target);
    for (uint32_t b = 0; b < count; b++) {
        target[b] = b;
        if (!misfit[b]) continue;
        loops->buffers.items[b] = before[b];
        const loop_op writer = loops->ops.items[misfit[b] - 1];
        TRY(copy_out(&r, b, &writer, &target[b]));
    }
    for (uint32_t i = 0; i < loops->outputs.count; i++)
        loops->outputs.items[i].buffer = target[loops->outputs.items[i].buffer];
    return NULL;
}

// What the pass knows of the sticks: of every access, op after op, before and now; of every buffer
// the last op that writes it and whether it cannot leave as it is, both plus one, 0: none.
typedef struct {
    uint8_t *old_stick, *new_stick;
    uint32_t *writer, *misfit;
    loop_buffer *before;
} fitting;

static spyre_status begin_fitting(loop_graph *loops, fitting *f)
{
    uint32_t count = loops->buffers.count, places = loops->ops.count * LOOP_MAX_OPERANDS;
    TRY_NEW(loop_scratch(loops), f->old_stick, places);
    TRY_NEW(loop_scratch(loops), f->new_stick, places);
    TRY_NEW(loop_scratch(loops), f->writer, count);
    TRY_NEW(loop_scratch(loops), f->misfit, count);
    TRY_NEW(loop_scratch(loops), f->before, count);
    if (count) memcpy(f->before, loops->buffers.items, count * sizeof *f->before);
    find_sticks(loops, f->old_stick);
    return NULL;
}

static void find_misfits(const loop_graph *loops, fitting *f)
{
    find_sticks(loops, f->new_stick);
    for (uint32_t b = 0; b < loops->buffers.count; b++) f->misfit[b] = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        f->writer[loop_result(op)->buffer] = i + 1;
        for (uint32_t k = 0; k < op->operand_count; k++) {
            uint32_t id = op->operand[k].buffer, at = i * LOOP_MAX_OPERANDS + k;
            if (f->old_stick[at] != f->new_stick[at]) f->misfit[id] = f->writer[id];
        }
    }
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (!may_leave(loops, b) || is_worth_packing(loops, b)) f->misfit[b] = f->writer[b];
}

// Gives misfits the shape in which they leave.
static void take_output_shapes(loop_graph *loops, fitting *f)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        spyre_view view;
        loop_buffer *buffer = &loops->buffers.items[b];
        if (!f->misfit[b] || !front_leaves_as(loops, b, &view)) continue;
        *buffer = f->before[b];
        buffer->storage = view;
        take_host_dims(buffer);
    }
}

spyre_status pass_output_layouts(loop_graph *loops, bool *out_changed)
{
    fitting f;
    TRY(begin_fitting(loops, &f));
    uint32_t count = loops->buffers.count;
    for (uint32_t b = 0; b < count; b++) {
        loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->output < 0 || !buffer->has_layout) continue;
        take_host_dims(buffer);
        take_order_of_replaced(loops, buffer);
    }
    find_misfits(loops, &f);
    take_output_shapes(loops, &f);
    find_misfits(loops, &f);
    *out_changed = loops->output_buffer_count > 0;
    TRY(copy_misfits(loops, f.before, count, f.misfit));
    restickify_name_copies(loops);
    return NULL;
}
