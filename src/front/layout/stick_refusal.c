// SPDX-License-Identifier: Apache-2.0
#include "front/layout/stick_refusal.h"

#include <inttypes.h>

static void describe_layout(const loop_buffer *buffer, uint8_t stick, text *out)
{
    if (stick == LOOP_NO_DIM)
        text_append(out, " one element a stick: ");
    else
        text_printf(out, " stick along %" PRId64 ":%" PRId64 ": ", buffer->dim[stick].extent,
                    buffer->dim[stick].stride);
}

// Each layout of operand k, with what becomes of the access under it.
static void describe_operand(loop_graph *loops, const loop_op *op, uint32_t k, text *out)
{
    loop_buffer *buffer = &loops->buffers.items[op->operand[k].buffer];
    const loop_buffer before = *buffer;
    if (k + 1 < op->operand_count)
        text_printf(out, "; operand %u %%%s", k, buffer->name);
    else
        text_printf(out, "; result %%%s", buffer->name);
    for (uint8_t d = 0; d <= buffer->dim_count; d++) {
        uint8_t stick = d < buffer->dim_count ? d : LOOP_NO_DIM;
        loop_location place;
        if (d) text_append(out, ",");
        describe_layout(buffer, stick, out);
        loop_set_layout(buffer, stick);
        const char *why = loop_locate(loops, op, &op->operand[k], &place);
        if (why)
            text_append(out, why);
        else if (place.stick_var == LOOP_NO_DIM)
            text_append(out, "along no loop");
        else if (place.stick_var == LOOP_ROWS)
            text_append(out, "along its rows");
        else
            text_printf(out, "along c%u", place.stick_var);
    }
    *buffer = before;
}

spyre_status stick_refusal(loop_graph *loops, const loop_op *op, const char *rule)
{
    text t = {0};
    text_printf(&t, "op %s %s (%s): %s", op->name, opfunc_describe(op->op)->name,
                op->location ? op->location : "unknown source line", rule);
    if (op->wanted_stick == LOOP_NO_DIM)
        text_append(&t, "; a pass wants one element a stick");
    else if (op->wanted_stick)
        text_printf(&t, "; a pass wants c%u", op->wanted_stick - 1u);
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (loop_operand_buffer(loops, op, k)->kind != LOOP_CONSTANT)
            describe_operand(loops, op, k, &t);
    spyre_status status = text_status(&t);
    if (!status) status = status_new(SPYRE_UNSUPPORTED, "%s", text_string(&t));
    text_free(&t);
    return status;
}
