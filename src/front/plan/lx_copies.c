// SPDX-License-Identifier: Apache-2.0
#include "front/plan/lx_copies.h"

#include <stdlib.h>
#include <string.h>

#include "front/ir/division.h"
#include "front/ir/lx_slices.h"

// --- The op

// Slices that only repeat what other cores have.
static bool add_repeats(const loop_op *near, const loop_access *access, loop_op *out)
{
    for (uint32_t u = 0; u < near->var_count; u++) {
        if (near->split[u] == 1 || access->stride[u]) continue;
        if (out->op != OPFUNC_SHUFFLE || out->var_count == LOOP_MAX_VARS) return false;
        uint32_t v = out->var_count++;
        out->extent[v] = out->split[v] = near->split[u];
        out->core_stride[v] = near->core_stride[u];
    }
    return true;
}

bool lx_copy_describe(const loop_graph *loops, opfunc op, const loop_op *near,
                      uint32_t k, loop_op *out)
{
    const loop_access *access = &near->operand[k];
    const loop_buffer *b = &loops->buffers.items[access->buffer];
    lx_slices view = lx_slices_of(loops, near, k);
    bool shorter = loops->settings.uneven_splits && op != OPFUNC_SHUFFLE;
    if (view.why || !lx_slices_are_whole(b, &view, shorter) || b->dim_count > LOOP_MAX_VARS)
        return false;
    *out = loop_over_dims(near, op, b);
    out->divided_by = near->divided_by;
    out->operand[0].buffer = out->operand[1].buffer = access->buffer;
    for (uint32_t d = b->dim_count, v = 0; d-- > 0; v++) {
        out->split[v] = view.slices[d];
        out->core_stride[v] = view.core_stride[d];
    }
    if (!add_repeats(near, access, out)) return false;
    division_sizes sizes = division_sizes_of(loops, out);
    for (uint32_t v = 0; v < out->var_count; v++)
        if (!division_cuts(sizes.units[v], out->split[v], shorter)) return false;
    return loop_core_count(out) == loop_core_count(near);
}

// --- Insertion

spyre_status lx_copies_create(const loop_graph *loops, lx_copies *out)
{
    uint32_t operands = loops->ops.count * LOOP_MAX_OPERANDS;
    *out = (lx_copies){.copy_of = ARENA_NEW(loop_scratch(loops), uint32_t, operands)};
    TRY_ALLOC(out->copy_of);
    for (uint32_t i = 0; i < operands; i++) out->copy_of[i] = SPYRE_NO_ID;
    return NULL;
}

spyre_status lx_copies_add_buffer(loop_graph *loops, uint32_t original, uint32_t *out)
{
    loop_buffer twin = loops->buffers.items[original];
    twin.kind = LOOP_LOCAL;
    twin.output = -1;
    *out = loops->buffers.count;
    return VEC_PUSH(loops->memory, &loops->buffers, twin);
}

static spyre_status add_op(const loop_graph *loops, lx_copy *copy, loop_op_list *out)
{
    loop_op op = copy->op;
    op.inserted = true;
    op.operand[0].buffer = copy->leaves ? copy->buffer : copy->original;
    op.operand[1].buffer = copy->leaves ? copy->original : copy->buffer;
    copy->at = out->count;
    return VEC_PUSH(loops->memory, out, op);
}

// The op with copies' buffers for originals, and the copies that belong beside it.
static spyre_status append(loop_graph *loops, uint32_t index, lx_copies *copies, loop_op_list *out)
{
    loop_op op = loops->ops.items[index];
    lx_copy *behind = NULL;
    for (uint32_t k = 0; k < op.operand_count; k++) {
        uint32_t n = copies->copy_of[index * LOOP_MAX_OPERANDS + k];
        if (n == SPYRE_NO_ID || !copies->items.items[n].kept) continue;
        lx_copy *copy = &copies->items.items[n];
        bool first = copy->buffer == SPYRE_NO_ID;
        if (first) TRY(lx_copies_add_buffer(loops, copy->original, &copy->buffer));
        if (first && copy->leaves) behind = copy;
        if (first && !copy->leaves) TRY(add_op(loops, copy, out));
        op.operand[k].buffer = copy->buffer;
    }
    TRY(VEC_PUSH(loops->memory, out, op));
    return behind ? add_op(loops, behind, out) : NULL;
}

spyre_status lx_copies_insert(loop_graph *loops, lx_copies *copies)
{
    loop_op_list ops = {0};
    TRY(VEC_ROOM(loops->memory, &ops, loops->ops.count + copies->items.count));
    for (uint32_t n = 0; n < copies->items.count; n++) copies->items.items[n].buffer = SPYRE_NO_ID;
    for (uint32_t i = 0; i < loops->ops.count; i++) TRY(append(loops, i, copies, &ops));
    loops->ops = ops;
    return NULL;
}

// --- Candidates

static bool is_placed(const loop_graph *planned, const lx_copy *copy)
{
    const loop_buffer *buffers = planned->buffers.items;
    return buffers[copy->buffer].in_lx &&
           (copy->op.op != OPFUNC_SHUFFLE || buffers[copy->original].in_lx);
}

// The end of the candidate that begins with copy n.
static uint32_t end_of(const lx_copies *copies, uint32_t n)
{
    uint32_t original = copies->items.items[n].original;
    while (n < copies->items.count && copies->items.items[n].original == original) n++;
    return n;
}

static void drop(lx_copies *copies, uint32_t n)
{
    for (uint32_t end = end_of(copies, n); n < end; n++) copies->items.items[n].kept = false;
}

bool lx_copies_keep_placed(const loop_graph *planned, lx_copies *copies)
{
    bool all = true;
    for (uint32_t n = 0, end; n < copies->items.count; n = end) {
        bool placed = true;
        end = end_of(copies, n);
        if (!copies->items.items[n].kept) continue;
        for (uint32_t m = n; m < end; m++) placed &= is_placed(planned, &copies->items.items[m]);
        if (!placed) drop(copies, n);
        all &= placed;
    }
    return all;
}

uint32_t lx_copies_kept(const lx_copies *copies)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < copies->items.count; n = end_of(copies, n))
        count += copies->items.items[n].kept;
    return count;
}

static int by_gain(const void *a, const void *b)
{
    const lx_copy *const *x = a, *const *y = b;
    if ((*x)->gain_us != (*y)->gain_us) return (*x)->gain_us < (*y)->gain_us ? -1 : 1;
    return (*x)->original < (*y)->original ? -1 : 1;
}

spyre_status lx_copies_drop_half(arena *memory, lx_copies *copies)
{
    uint32_t kept = 0;
    const lx_copy **order = ARENA_NEW(memory, const lx_copy *, copies->items.count);
    TRY_ALLOC(order);
    for (uint32_t n = 0; n < copies->items.count; n = end_of(copies, n))
        if (copies->items.items[n].kept) order[kept++] = &copies->items.items[n];
    qsort(order, kept, sizeof *order, by_gain);
    for (uint32_t n = 0; n < (kept + 1) / 2; n++)
        drop(copies, (uint32_t)(order[n] - copies->items.items));
    return NULL;
}

// --- Copies of tiles

// An op inside of the same outermost counted loop writes the buffer.
static bool written_in_loop(const loop_graph *loops, const loop_op *inside, uint32_t buffer)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (loop_result(op)->buffer == buffer && loop_shared_tiles(op, inside)) return true;
    }
    return false;
}

// Dims of the copy are parts of the original's, so its readers move within dims of that, too. Where
// the copy joins dims, they may move by steps that are none there:
//     b19 of 60:2 for b1 of 10:12 6:2, read at 20*c1 + 2*c2
static bool has_parts_of_dims(const loop_buffer *original, const loop_buffer *copy)
{
    for (uint32_t n = 0; n < copy->dim_count; n++) {
        const loop_dim *part = &copy->dim[n];
        if (part->extent == 1) continue;
        if (!original->dim_count) return false;
        const loop_dim *whole = &original->dim[loop_dim_at(original, part->stride)];
        if (part->stride % whole->stride ||
            part->stride * part->extent > whole->stride * whole->extent)
            return false;
    }
    return true;
}

// What each iteration has of the copy is a tile of the original in memory, element for element.
static bool is_idle_copy(const loop_graph *loops, const uint32_t *writers, const loop_op *op)
{
    const loop_access *from = op->operand, *to = loop_result(op);
    const loop_buffer *original = &loops->buffers.items[from->buffer];
    const loop_buffer *copy = &loops->buffers.items[to->buffer];
    return op->tile_depth && loop_is_copy(op) && copy->kind == LOOP_LOCAL && !copy->in_lx &&
           copy->output < 0 && !original->in_lx && copy->tile_depth == op->tile_depth &&
           !from->offset && !to->offset &&
           loop_same_elements(original, copy) && has_parts_of_dims(original, copy) &&
           original->kind != LOOP_CONSTANT && writers[to->buffer] == 1 &&
           memcmp(from->stride, to->stride, sizeof from->stride) == 0 &&
           !written_in_loop(loops, op, from->buffer);
}

// Reads of a buffer with a copy in copy_of are reads of what that copies.
static void forward(const loop_op *const *copy_of, loop_op *op)
{
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        const loop_op *copy = copy_of[op->operand[k].buffer];
        if (!copy) continue;
        op->operand[k].buffer = copy->operand[0].buffer;
        for (uint32_t t = 0; t < copy->tile_depth; t++)
            op->operand[k].tile_stride[t] += copy->operand[0].tile_stride[t];
    }
}

spyre_status lx_copies_forward(loop_graph *loops)
{
    bool *gone;
    uint32_t *writers;
    const loop_op **copy_of;                // by buffer
    TRY_NEW(loop_scratch(loops), gone, loops->ops.count);
    TRY_NEW(loop_scratch(loops), writers, loops->buffers.count);
    TRY_NEW(loop_scratch(loops), copy_of, loops->buffers.count);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        writers[loop_result(&loops->ops.items[i])->buffer]++;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        forward(copy_of, op);
        gone[i] = is_idle_copy(loops, writers, op);
        if (gone[i]) copy_of[loop_result(op)->buffer] = op;
    }
    if (loop_drop_ops(loops, gone)) loop_find_live_ranges(loops);
    return NULL;
}
