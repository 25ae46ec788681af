// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_greedy.h"

#include "front/layout/stick_refusal.h"

// Of equal stick costs only: does the mode read operand k as it lies?
static bool reads_in_place(const loop_graph *loops, const loop_op *op, uint32_t k,
                           const stick_mode *mode, bool *out_located)
{
    loop_location place;
    *out_located = !loop_locate(loops, op, &op->operand[k], &place);
    return *out_located && place.stick_var == mode->stick[k];
}

// Elements that the mode's copies write.
static int64_t elements_to_copy(const loop_graph *loops, const loop_op *op, const stick_mode *mode)
{
    int64_t sum = 0;
    for (uint32_t k = op->table ? 1 : 0; k + 1 < op->operand_count; k++) {
        int64_t elements = 1;
        bool located;
        if (reads_in_place(loops, op, k, mode, &located)) continue;
        for (uint32_t v = 0; v < op->var_count; v++)
            if (op->operand[k].stride[v]) elements *= op->extent[v];
        sum += located ? elements : 2 * elements;
    }
    return sum;
}

// A later piece of a buffer follows the first one.
static bool fits_written(const loop_buffer *buffer, const stick_mode *mode)
{
    return !buffer->has_layout ||
           mode->dim == (buffer->stick == LOOP_NO_DIM ? STICK_SPARSE : buffer->stick);
}

static spyre_status choose(loop_graph *loops, const loop_op *op,
                           const stick_mode_list *modes, stick_mode *out)
{
    const loop_buffer *result = &loops->buffers.items[loop_result(op)->buffer];
    int64_t least = INT64_MAX;
    for (uint32_t m = 0; m < modes->count; m++) {
        const stick_mode *mode = &modes->items[m];
        if (!fits_written(result, mode)) continue;
        int64_t elements = elements_to_copy(loops, op, mode);
        if (elements >= least) continue;
        least = elements;
        *out = *mode;
    }
    if (least < INT64_MAX) return NULL;
    return stick_refusal(loops, op, "no layout of the result goes with those of the operands");
}

spyre_status stick_greedy(loop_graph *loops, const uint16_t *writable, stick_mode *out_modes)
{
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t result = loop_result(op)->buffer;
        stick_mode_list modes;
        *loops->at_node = op->node;
        stick_modes_of(loops, op, writable[result], &modes);
        TRY(choose(loops, op, &modes, &out_modes[i]));
        stick_set(&loops->buffers.items[result], out_modes[i].dim);
    }
    return NULL;
}
