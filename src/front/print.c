// SPDX-License-Identifier: Apache-2.0
//
// The text form of the loop IR. One line a buffer, one block an op; docs/loop-text.md.
#include "front/loop.h"

#include <inttypes.h>

static void print_layout(const loop_buffer *buffer, text *out)
{
    if (!buffer->has_layout) return;
    text_append(out, " layout(");
    for (uint32_t i = 0; i < buffer->dim_count; i++)
        text_printf(out, "%s%u%s", i ? " " : "", buffer->order[i],
                    buffer->order[i] == buffer->stick ? "*" : "");
    text_append(out,
                buffer->stick == LOOP_NO_DIM ? (buffer->dim_count ? " sparse)" : "sparse)") : ")");
}

static void print_buffer(const loop_graph *loops, uint32_t id, text *out)
{
    static const char *const kinds[] = {"input", "constant", "local"};
    const loop_buffer *buffer = &loops->buffers.items[id];
    text_printf(out, "buffer b%u %s %s %s dims(", id, kinds[buffer->kind],
                spyre_dtype_name(buffer->dtype), spyre_format_name(buffer->format));
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        text_printf(out, "%s%" PRId64 ":%" PRId64, d ? " " : "", buffer->dim[d].extent,
                    buffer->dim[d].stride);
    text_append(out, ")");
    print_layout(buffer, out);
    if (buffer->kind == LOOP_CONSTANT) text_printf(out, " value(%.9g)", buffer->value);
    if (buffer->exx2) text_append(out, " exx2");
    if (buffer->output >= 0) text_printf(out, " output(%d)", buffer->output);
    if (buffer->bytes)
        text_printf(out, " %s(%" PRId64 "+%" PRId64 ")", buffer->in_lx ? "lx" : "memory",
                    buffer->memory_offset, buffer->bytes);
    for (uint32_t d = 0; buffer->in_lx && d < buffer->dim_count; d++)
        if (buffer->slices[d] > 1) text_printf(out, " slices(%u/%d)", d, buffer->slices[d]);
    text_printf(out, "  // %s", buffer->name);
    if (buffer->why_in_memory && buffer->output < 0)
        text_printf(out, "; in memory: %s", buffer->why_in_memory);
    text_append(out, "\n");
}

static void print_access(const loop_op *op, const loop_access *access, text *out)
{
    text_printf(out, "b%u[%" PRId64, access->buffer, access->offset);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (access->stride[v]) text_printf(out, " + %" PRId64 "*c%u", access->stride[v], v);
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (access->tile_stride[t])
            text_printf(out, " + %" PRId64 "*t%u", access->tile_stride[t], op->tiles[t]);
    text_append(out, "]");
}

static void print_op(const loop_graph *loops, uint32_t id, text *out)
{
    const loop_op *op = &loops->ops.items[id];
    const opfunc_info *info = opfunc_describe(op->op);
    text_printf(out, "op %u %s%s for(", id, info->name, op->gather ? " gather" : "");
    for (uint32_t v = 0; v < op->var_count; v++)
        text_printf(out, "%sc%u<%" PRId64 "%s%s", v ? ", " : "", v, op->extent[v],
                    loop_var_is_reduced(op, v) ? " reduced" : "", v == op->stick ? " stick" : "");
    text_append(out, ")");
    for (uint32_t t = 0; t < op->tile_depth; t++)
        text_printf(out, " in(t%u<%" PRId64 " %s)", op->tiles[t],
                    loops->tiles.items[op->tiles[t]].count,
                    loops->tiles.items[op->tiles[t]].name);
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (op->split[v] < 2) continue;
        text_printf(out, " split(c%u/%d", v, op->split[v]);
        if (op->core_stride[v] > 1) text_printf(out, ":%d", op->core_stride[v]);
        text_append(out, ")");
    }
    for (uint32_t i = 0; i < OPFUNC_MAX_PARAMETERS; i++)
        if (info->parameter[i]) text_printf(out, " %s(%.9g)", info->parameter[i], op->parameter[i]);
    if (op->gather)
        text_printf(out, " rows(%" PRId64 ":%" PRId64 ")", op->row_count, op->row_stride);
    text_printf(out, "  // %s, %s%s%s\n    ", op->name, op->location ? op->location : "unknown",
                op->note ? "; " : "", op->note ? op->note : "");
    print_access(op, &op->operand[op->operand_count - 1], out);
    text_append(out, " =");
    for (uint32_t i = 0; i + 1 < op->operand_count; i++) {
        text_append(out, " ");
        print_access(op, &op->operand[i], out);
    }
    text_append(out, "\n");
}

void loop_print(const loop_graph *loops, text *out)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++) print_buffer(loops, b, out);
    for (uint32_t i = 0; i < loops->ops.count; i++) print_op(loops, i, out);
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        const loop_output *output = &loops->outputs.items[i];
        text_printf(out, "return b%u[%" PRId64 "]", output->buffer, output->view.offset);
        for (uint32_t d = 0; d < output->view.rank; d++)
            text_printf(out, " %" PRId64 ":%" PRId64, output->view.size[d], output->view.stride[d]);
        text_append(out, "\n");
    }
}

static spyre_status check_texts(const text *first, arena *memory, text *second)
{
    loop_graph *again;
    uint32_t line = 1;
    TRY(text_status(first));
    TRY(loop_parse(text_string(first), "text form", memory, &again));
    loop_print(again, second);
    TRY(text_status(second));
    const char *a = text_string(first), *b = text_string(second);
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    if (*a == *b) return NULL;
    return status_new(SPYRE_INTERNAL, "text form: line %u reads back as another", line);
}

spyre_status loop_check_text(const loop_graph *loops)
{
    text first = {0}, second = {0};
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    loop_print(loops, &first);
    spyre_status status = check_texts(&first, memory, &second);
    text_free(&first);
    text_free(&second);
    arena_destroy(memory);
    return status;
}
