// SPDX-License-Identifier: Apache-2.0
//
// share_copies: where a buffer is copied whole to change its stick, ops read that copy in the place
// of other copies of it, whole or in part, with the same stick. Parts come from slices, of which
// each was copied for itself as long as nothing said that all of it would be:
//
//     op 0 ReStickifyOpHBM  b3[56*c0 + 1*c1] = b0[56*c0 + 1*c1]       for(c0<56 stick, c1<3)
//     op 1 identity         b1[60*c0] = b3[2 + 56*c0]                 for(c0<56 stick)
//     op 2 ReStickifyOpHBM  b4[56*c0 + 1*c1] = b0[56*c0 + 1*c1]       for(c0<56 stick, c1<56)
//
// becomes op 2 and, behind it, op 1 that reads b4. The obvious shortcut, to copy all of a buffer
// for any slice, costs a cache of keys for each line that is read of it.
#include "front/front.h"
#include "front/ir/loop.h"

#include <string.h>

// Whether the op fills a buffer that only other ops read, a loop for each of its dims.
static bool is_copy(const loop_graph *loops, const loop_op *op)
{
    if (op->op != OPFUNC_RESTICKIFY || op->operand_count != 2 || op->tile_depth) return false;
    const loop_access *to = &op->operand[1];
    const loop_buffer *target = &loops->buffers.items[to->buffer];
    if (target->kind != LOOP_LOCAL || loop_is_returned(loops, to->buffer) || to->offset)
        return false;
    for (uint32_t v = 0; v < op->var_count; v++) {
        const loop_dim *dim = &target->dim[loop_dim_at(target, to->stride[v])];
        if (dim->stride != to->stride[v] || dim->extent != op->extent[v]) return false;
    }
    return op->var_count > 0 && op->var_count == target->dim_count;
}

// Whether the op copies all of a buffer to one of the same dims.
static bool is_whole(const loop_graph *loops, const loop_op *op)
{
    return is_copy(loops, op) && !op->operand[0].offset &&
           loop_same_dims(loop_operand_buffer(loops, op, 0), loop_operand_buffer(loops, op, 1)) &&
           memcmp(op->operand[0].stride, op->operand[1].stride, sizeof op->operand[0].stride) == 0;
}

// The elements of the copied buffer from one to the next along a dim of the copy.
static int64_t source_stride(const loop_graph *loops, const loop_op *copy, uint32_t dim)
{
    const loop_buffer *target = loop_operand_buffer(loops, copy, 1);
    uint32_t v = 0;
    while (copy->operand[1].stride[v] != target->dim[dim].stride) v++;
    return copy->operand[0].stride[v];
}

static int64_t stick_stride(const loop_graph *loops, const loop_op *copy)
{
    const loop_buffer *target = loop_operand_buffer(loops, copy, 1);
    return target->stick == LOOP_NO_DIM ? 0 : source_stride(loops, copy, target->stick);
}

static bool is_written_between(const loop_graph *loops, uint32_t buffer, uint32_t a, uint32_t b)
{
    return loop_count_writers(loops, buffer, a < b ? a : b, a < b ? b : a) > 0;
}

// The copy of all that the op at `part` copies some of, or UINT32_MAX.
static uint32_t whole_of(const loop_graph *loops, uint32_t part)
{
    const loop_op *p = &loops->ops.items[part];
    const int64_t stick = stick_stride(loops, p);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (i == part || op->operand[0].buffer != p->operand[0].buffer) continue;
        if (!is_whole(loops, op) || stick_stride(loops, op) != stick) continue;
        if (!is_written_between(loops, p->operand[0].buffer, part, i)) return i;
    }
    return UINT32_MAX;
}

// Whether a reader of `part`'s target can read `whole`'s instead; *out_read is how.
static bool can_read(const loop_graph *loops, const loop_op *reader, uint32_t operand,
                     const loop_op *part, const loop_op *whole, loop_access *out_read)
{
    const loop_access *read = &reader->operand[operand];
    const loop_buffer *copied = &loops->buffers.items[read->buffer];
    loop_location before, after;
    int64_t first[LOOP_MAX_DIMS], last[LOOP_MAX_DIMS];
    *out_read = *read;
    out_read->buffer = whole->operand[1].buffer;
    out_read->offset = part->operand[0].offset;
    // Dims side by side in the part are none in the whole.
    if (reader->table || !loop_find_reach(copied, reader, read, first, last)) return false;
    for (uint32_t d = 0; d < copied->dim_count; d++)
        out_read->offset += first[d] * source_stride(loops, part, d);
    for (uint32_t v = 0; v < reader->var_count; v++) {
        if (read->stride[v] < 0) return false;
        uint32_t d = loop_dim_at(copied, read->stride[v]);
        out_read->stride[v] =
            read->stride[v] / copied->dim[d].stride * source_stride(loops, part, d);
    }
    return !loop_locate(loops, reader, &reader->operand[operand], &before) &&
           !loop_locate(loops, reader, out_read, &after) && before.stick_var == after.stick_var;
}

// Lets all readers of `part`'s target read `whole`'s, if all can.
static bool hand_over(loop_graph *loops, const loop_op *part, const loop_op *whole)
{
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < loops->ops.count; i++) {
            loop_op *reader = &loops->ops.items[i];
            for (uint32_t k = 0; k + 1 < reader->operand_count; k++) {
                loop_access read;
                if (reader->operand[k].buffer != part->operand[1].buffer) continue;
                if (!can_read(loops, reader, k, part, whole, &read)) return false;
                if (turn) reader->operand[k] = read;
            }
        }
    }
    return true;
}

// By buffer: how many ops copy some of it. Looking for another copy goes through all ops.
static spyre_status count_copies(const loop_graph *loops, uint32_t **out_copies)
{
    TRY_NEW(loop_scratch(loops), *out_copies, loops->buffers.count);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (is_copy(loops, op)) (*out_copies)[op->operand[0].buffer]++;
    }
    return NULL;
}

spyre_status pass_share_copies(loop_graph *loops, bool *out_changed)
{
    loop_op_list *ops = &loops->ops;
    uint32_t *copies;
    TRY(count_copies(loops, &copies));
    for (uint32_t i = 0; i < ops->count;) {
        const loop_op part = ops->items[i];
        const bool may_share = is_copy(loops, &part) && copies[part.operand[0].buffer] > 1;
        uint32_t w = may_share ? whole_of(loops, i) : UINT32_MAX;
        i++;
        if (w == UINT32_MAX || !hand_over(loops, &part, &ops->items[w])) continue;
        // The earlier one of both places becomes the whole's, the later one goes.
        uint32_t place = i - 1, gone = w > place ? w : place;
        if (w > place) ops->items[place] = ops->items[w];
        memmove(&ops->items[gone], &ops->items[gone + 1],
                (ops->count - gone - 1) * sizeof ops->items[0]);
        ops->count--;
        i = place;
        *out_changed = true;
    }
    return NULL;
}
