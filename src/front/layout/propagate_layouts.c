// SPDX-License-Identifier: Apache-2.0
//
// propagate_layouts: gives every result a stick. What the opfuncs demand says stick_modes.h; which
// of the possible ways is taken stick_search.h. Where an operand then disagrees, restickify.c
// inserts restickify ops, each copy once.
//
// The obvious shortcut, to choose op by op, cannot see that a projection which is read by heads
// would better have its stick along the sequence from the start.
#include "front/front.h"
#include "front/layout/stick_refusal.h"
#include "front/layout/stick_report.h"
#include "front/tile/named_dims.h"

static spyre_status assign_result(loop_graph *loops, loop_op *op, const stick_mode *mode)
{
    const loop_access *access = loop_output_of(op);
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    uint8_t stick = mode->stick[op->operand_count - 1];
    op->stick = stick == LOOP_ROWS ? LOOP_NO_DIM : stick;
    if (!buffer->has_layout) stick_set(buffer, mode->dim);
    loop_location place;
    const char *why = loop_locate(loops, op, access, &place);
    if (!why && place.stick_var != stick) why = "has another stick than its op";
    return why ? stick_refusal(loops, op, "the layout of the result does not fit") : NULL;
}

// Puts copies in front of the ops that read them; of op i the first is copies[first[i]].
static spyre_status insert(loop_graph *loops, const loop_op_list *copies, const uint32_t *first)
{
    const uint32_t ops = loops->ops.count;
    for (uint32_t n = 0; n < copies->count; n++)
        TRY(VEC_PUSH(loops->memory, &loops->ops, copies->items[n]));
    for (uint32_t i = ops, at = loops->ops.count; i-- > 0 && at > i + 1;) {
        loops->ops.items[--at] = loops->ops.items[i];
        for (uint32_t n = first[i + 1]; n-- > first[i];) loops->ops.items[--at] = copies->items[n];
    }
    return NULL;
}

static spyre_status lay_out(loop_graph *loops, arena *scratch, const stick_mode *modes)
{
    const uint32_t ops = loops->ops.count;
    loop_op_list copies = {0};
    restickifier r = {.loops = loops, .ops = &copies};
    uint32_t *first;
    TRY_NEW(scratch, first, ops + 1);
    TRY(VEC_ROOM(scratch, &copies, ops / 8 + 8));
    for (uint32_t i = 0; i < ops; i++) {
        loop_op *op = &loops->ops.items[i];
        *loops->at_node = op->node;
        first[i] = copies.count;
        for (uint32_t k = 0; k + 1 < op->operand_count; k++)
            TRY(stick_restickify(&r, op, k, &modes[i]));
        TRY(assign_result(loops, op, &modes[i]));
    }
    first[ops] = copies.count;
    return insert(loops, &copies, first);
}

static spyre_status choose_and_lay_out(loop_graph *loops, arena *scratch)
{
    const stick_mode *modes;
    stick_choice *choice = ARENA_NEW(loops->memory, stick_choice, 1);
    TRY_ALLOC(choice);
    TRY(stick_choose(loops, scratch, &modes, choice));
    loops->sticks = choice;
    if (loops->explains) TRY(stick_report(loops, scratch, modes, choice, &loops->notes));
    return lay_out(loops, scratch, modes);
}

// The dim of a buffer, other than its stick's, that an access walks in steps which do not divide
// it.
static uint8_t uneven_dim(const loop_buffer *buffer, const loop_op *op, const loop_access *access)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (!access->stride[v]) continue;
        uint8_t d = (uint8_t)loop_dim_at(buffer, access->stride[v]);
        int64_t step = access->stride[v] / buffer->dim[d].stride;
        if (d != buffer->stick && buffer->dim[d].extent % step) return d;
    }
    return LOOP_NO_DIM;
}

static void put_outermost(loop_buffer *buffer, uint8_t dim)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < buffer->dim_count; i++)
        if (buffer->order[i] != dim) buffer->order[kept++] = buffer->order[i];
    buffer->order[kept] = dim;
}

static bool is_located(const loop_graph *loops, uint32_t buffer)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_location place;
            if (op->operand[k].buffer == buffer && loop_locate(loops, op, &op->operand[k], &place))
                return false;
        }
    }
    return true;
}

// Steps that do not divide a dim leave a remainder at its end, which a step of the bundle can
// express only in the outermost dim. Rows of a table may need the order as it is.
static void order_dims(loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        for (uint32_t k = 0; k < op->operand_count; k++) {
            loop_buffer *buffer = &loops->buffers.items[op->operand[k].buffer];
            if (buffer->kind != LOOP_LOCAL || !buffer->has_layout) continue;
            const loop_buffer before = *buffer;
            uint8_t dim = uneven_dim(buffer, op, &op->operand[k]);
            if (dim == LOOP_NO_DIM || buffer->order[buffer->dim_count - 1] == dim) continue;
            put_outermost(buffer, dim);
            if (!is_located(loops, op->operand[k].buffer)) *buffer = before;
        }
    }
}

spyre_status pass_propagate_layouts(loop_graph *loops, bool *out_changed)
{
    TRY(named_dims_find_cut_sticks(loops));
    TRY(choose_and_lay_out(loops, loop_scratch(loops)));
    for (uint32_t i = 0; i < loops->ops.count; i++) loops->ops.items[i].cut_sticks = 0;
    order_dims(loops);
    restickify_name_copies(loops);
    *out_changed = loops->ops.count > 0;
    return NULL;
}
