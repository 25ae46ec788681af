// SPDX-License-Identifier: Apache-2.0
//
// propagate_layouts: gives every result a stick. What the opfuncs demand says stick_modes.h; which
// of the possible ways is taken stick_search.h. Where an operand then disagrees, relayout.c inserts
// restickify ops, each copy once.
//
// The obvious shortcut, to choose op by op, cannot see that a projection which is read by heads
// would better have its stick along the sequence from the start.
#include "front/front.h"
#include "front/stick_refusal.h"
#include "front/stick_report.h"

static spyre_status assign_result(loop_graph *loops, loop_op *op, const stick_mode *mode)
{
    const loop_access *access = loop_output_of(op);
    loop_buffer *buffer = &loops->buffers.items[access->buffer];
    op->stick = mode->stick[op->operand_count - 1];
    if (!buffer->has_layout) stick_set(buffer, mode->dim);
    loop_location place;
    const char *why = loop_locate(loops, op, access, &place);
    if (!why && place.stick_var != op->stick) why = "has another stick than its op";
    return why ? stick_refusal(loops, op, "the layout of the result does not fit") : NULL;
}

static spyre_status lay_out(loop_graph *loops, const stick_mode *modes)
{
    loop_op_list list = {0};
    relayouter r = {.loops = loops, .ops = &list};
    TRY(VEC_ROOM(loops->memory, &list, loops->ops.count + loops->ops.count / 8 + 8));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op op = loops->ops.items[i];
        *loops->at_node = op.node;
        for (uint32_t k = 0; k + 1 < op.operand_count; k++)
            TRY(stick_relayout(&r, &op, k, &modes[i]));
        TRY(assign_result(loops, &op, &modes[i]));
        TRY(VEC_PUSH(loops->memory, &list, op));
    }
    loops->ops.items = list.items;
    loops->ops.count = list.count;
    loops->ops.capacity = list.capacity;
    return NULL;
}

static spyre_status choose_and_lay_out(loop_graph *loops, arena *scratch)
{
    const stick_mode *modes;
    stick_choice *choice = ARENA_NEW(loops->memory, stick_choice, 1);
    TRY_ALLOC(choice);
    TRY(stick_choose(loops, scratch, &modes, choice));
    loops->sticks = choice;
    if (loops->explains) TRY(stick_report(loops, scratch, modes, choice, &loops->notes));
    return lay_out(loops, modes);
}

spyre_status pass_propagate_layouts(loop_graph *loops, bool *out_changed)
{
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = choose_and_lay_out(loops, scratch);
    arena_destroy(scratch);
    *out_changed = loops->ops.count > 0;
    return status;
}
