// SPDX-License-Identifier: Apache-2.0
//
// The text form of the loop IR. One line a buffer, one block an op; docs/loop-text.md.
#include "front/front.h"
#include "front/ir/dim_names.h"
#include "graph/text/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/scalar.h"

// --- What stands above the buffers

static void print_settings(const spyre_settings *settings, text *out)
{
    const spyre_settings standard = spyre_settings_default();
    char *theirs = NULL, *usual = NULL;
    spyre_status status = spyre_settings_print(settings, &theirs);
    if (!status) status = spyre_settings_print(&standard, &usual);
    const char *a = theirs, *b = usual;
    while (!status && *a) {
        size_t length = strcspn(a, "\n") + 1, other = strcspn(b, "\n") + 1;
        if (length != other || memcmp(a, b, length) != 0) {
            text_append(out, "set ");
            text_append_bytes(out, a, length);
        }
        a += length;
        b += other;
    }
    if (status) out->failed = true;
    spyre_status_free(status);
    spyre_string_free(theirs);
    spyre_string_free(usual);
}

static void print_head(const loop_graph *loops, text *out)
{
    text_printf(out, "after %s\n", front_stage_name(loops->stage));
    if (loops->notes) text_append(out, loops->notes);
    print_settings(&loops->settings, out);
    if (loops->pool_bytes) text_printf(out, "pool %" PRId64 "\n", loops->pool_bytes);
}

// --- Buffers

static void print_sizes(const spyre_view *view, text *out)
{
    for (uint32_t d = 0; d < view->rank; d++)
        text_printf(out, "%s%" PRId64 ":%" PRId64, d ? " " : "", view->size[d], view->stride[d]);
}

// The user's names of the dims of a view.
static void print_names(const loop_graph *loops, uint32_t names, const graph_view *of, text *out)
{
    spyre_view view;
    if (!names) return;
    spyre_status status = graph_view_constant(loops->graph, of, &view);
    text_append(out, " names(");
    graph_print_string(loops->graph->locations.items[names], out);
    text_append(out, " ");
    if (status) out->failed = true; // graphs behind `build` have constant sizes
    else print_sizes(&view, out);
    text_append(out, ")");
    spyre_status_free(status);
}

static void print_input_names(const loop_graph *loops, const loop_buffer *buffer, text *out)
{
    if (buffer->kind != LOOP_INPUT || !loops->graph) return;
    const graph_input *input = &loops->graph->inputs.items[buffer->index];
    if (input->dims)
        print_names(loops, input->dims, &loops->graph->values.items[input->value].view, out);
}

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

// What an input's layout allocates beyond its dims.
static void print_room(const loop_buffer *buffer, text *out)
{
    for (uint32_t d = 0; d < buffer->dim_count; d++)
        if (loop_allocated_extent(buffer, d) > loop_device_extent(buffer, d))
            text_printf(out, " room(%u:%" PRId64 ")", d, buffer->fixed_size[d]);
}

// The shortest decimals that read back as the number.
static void print_real(double value, text *out)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", value);
    if (value == value && strtod(digits, NULL) != value)
        snprintf(digits, sizeof digits, "%.17g", value);
    text_append(out, digits);
}

static bool is_plain(const loop_buffer *buffer)
{
    const spyre_view plain = loop_plain_storage(buffer), *storage = &buffer->storage;
    size_t bytes = plain.rank * sizeof plain.size[0];
    return plain.rank == storage->rank && memcmp(plain.size, storage->size, bytes) == 0 &&
           memcmp(plain.stride, storage->stride, bytes) == 0;
}

static void print_traits(const loop_buffer *buffer, text *out)
{
    if (buffer->kind != LOOP_CONSTANT && !is_plain(buffer)) {
        text_append(out, " tensor(");
        print_sizes(&buffer->storage, out);
        text_append(out, ")");
    }
    print_layout(buffer, out);
    print_room(buffer, out);
    if (buffer->replaced_by) text_printf(out, " replaced(%u)", buffer->replaced_by - 1);
    if (buffer->kind == LOOP_CONSTANT) {
        text_append(out, " value(");
        print_real(buffer->value, out);
        text_append(out, ")");
        if (buffer->scalar)
            text_printf(out, " scalar(%u %s)", buffer->scalar - 1, scalar_form_word(buffer->form));
    }
    if (buffer->exx2) text_append(out, " exx2");
    if (buffer->output >= 0) text_printf(out, " output(%d)", buffer->output);
    if (buffer->tile_depth) text_printf(out, " per_tile(%u)", buffer->tile_depth);
    if (buffer->walked) text_append(out, " walked");
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
    print_traits(buffer, out);
    if (buffer->bytes)
        text_printf(out, " %s(%" PRId64 "+%" PRId64 ")", buffer->in_lx ? "lx" : "memory",
                    buffer->memory_offset, buffer->bytes);
    for (uint32_t d = 0; buffer->in_lx && d < buffer->dim_count; d++)
        if (buffer->slices[d] > 1) text_printf(out, " slices(%u/%d)", d, buffer->slices[d]);
    print_input_names(loops, buffer, out);
    text_printf(out, "  // %s", buffer->name);
    if (buffer->why_in_memory && buffer->output < 0)
        text_printf(out, "; in memory: %s", buffer->why_in_memory);
    text_append(out, "\n");
}

// --- Ops

static void print_count(const loop_op *op, const loop_count *count, text *out)
{
    text_printf(out, "{%d", count->first);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (count->step[v]) text_printf(out, " + %d*c%u", count->step[v], v);
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (count->tile_step[t]) text_printf(out, " + %d*t%u", count->tile_step[t], op->tiles[t]);
    text_append(out, count->signs ? " > 0}" : "}");
}

static void print_access(const loop_graph *loops, const loop_op *op, const loop_access *access,
                         text *out)
{
    text_printf(out, "b%u", access->buffer);
    if (access->count) {
        print_count(op, loop_count_of(loops, access), out);
        return;
    }
    text_printf(out, "[%" PRId64, access->offset);
    for (uint32_t v = 0; v < op->var_count; v++)
        if (access->stride[v]) text_printf(out, " + %" PRId64 "*c%u", access->stride[v], v);
    for (uint32_t t = 0; t < op->tile_depth; t++)
        if (access->tile_stride[t])
            text_printf(out, " + %" PRId64 "*t%u", access->tile_stride[t], op->tiles[t]);
    text_append(out, "]");
}

static void print_loops(const loop_graph *loops, const loop_op *op, text *out)
{
    text_append(out, " for(");
    for (uint32_t v = 0; v < op->var_count; v++) {
        text_printf(out, "%sc%u<%" PRId64 "%s%s%s", v ? ", " : "", v, op->extent[v],
                    loop_var_is_reduced(op, v) ? " reduced" : "",
                    loop_var_is_scanned(op, v) ? " scanned" : "", v == op->stick ? " stick" : "");
        if (!op->dim_name[v]) continue;
        text_append(out, " ");
        graph_print_string(dim_names_of(loops, op, v), out);
    }
    text_append(out, ")");
    for (uint32_t t = 0; t < op->tile_depth; t++) {
        const loop_tiles *tiles = &loops->tiles.items[op->tiles[t]];
        text_printf(out, " in(t%u<%" PRId64 "%s %s)", op->tiles[t], tiles->count,
                    tiles->unrolled ? "*" : "", tiles->name);
    }
}

static void print_division(const loop_op *op, text *out)
{
    for (uint32_t v = 0; v < op->var_count; v++) {
        if (op->split[v] < 2) continue;
        text_printf(out, " split(c%u/%d", v, op->split[v]);
        if (op->core_stride[v] > 1) text_printf(out, ":%d", op->core_stride[v]);
        text_append(out, ")");
    }
    if (op->wanted_stick == LOOP_NO_DIM) text_append(out, " wants(sparse)");
    else if (op->wanted_stick) text_printf(out, " wants(c%u)", op->wanted_stick - 1u);
    if (op->divided_by != LOOP_UNDIVIDED)
        text_printf(out, " by(%s)", loop_division_origin_name(op->divided_by));
}

static void print_parameters(const loop_op *op, text *out)
{
    const opfunc_info *info = opfunc_describe(op->op);
    for (uint32_t i = 0; i < opfunc_constant_count(op->op, op->operand_count - 1u); i++)
        text_printf(out, " %s(%.9g)", info->parameter[i], op->parameter[i]);
    if (op->table)
        text_printf(out, " rows(%" PRId64 ":%" PRId64 ")", op->row_count, op->row_stride);
}

static void print_hint(const loop_graph *loops, const char *word, uint32_t hint, text *out)
{
    if (!hint) return;
    text_printf(out, " %s(", word);
    graph_print_string(loops->graph->locations.items[hint], out);
    text_append(out, ")");
}

// The graph node, and what the user asks of it.
static void print_node(const loop_graph *loops, const loop_op *op, text *out)
{
    text_printf(out, " node(%u)", op->node);
    if (!loops->graph || op->node >= loops->graph->nodes.count) return;
    const graph_node *node = &loops->graph->nodes.items[op->node];
    print_hint(loops, "work_div", node->hint.work_div, out);
    print_hint(loops, "tiles", node->hint.tiles, out);
    if (node->hint.dims && node->result_count)
        print_names(loops, node->hint.dims,
                    &loops->graph->values.items[node->results[0]].view, out);
}

static void print_op(const loop_graph *loops, uint32_t id, text *out)
{
    const loop_op *op = &loops->ops.items[id];
    text_printf(out, "op %u %s%s", id, opfunc_describe(op->op)->name, loop_table_word(op));
    if (opfunc_accumulates(op->accumulator))
        text_printf(out, " %s", opfunc_describe(op->accumulator)->name);
    print_loops(loops, op, out);
    print_division(op, out);
    print_parameters(op, out);
    print_node(loops, op, out);
    text_printf(out, "  // %s, %s%s%s\n    ", op->name, op->location ? op->location : "unknown",
                op->note ? "; " : "", op->note ? op->note : "");
    print_access(loops, op, loop_result(op), out);
    text_append(out, " =");
    for (uint32_t i = 0; i + 1 < op->operand_count; i++) {
        text_append(out, " ");
        print_access(loops, op, &op->operand[i], out);
    }
    text_append(out, "\n");
}

// --- The whole

void loop_print(const loop_graph *loops, text *out)
{
    print_head(loops, out);
    for (uint32_t b = 0; b < loops->buffers.count; b++) print_buffer(loops, b, out);
    for (uint32_t i = 0; i < loops->ops.count; i++) print_op(loops, i, out);
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        const loop_output *output = &loops->outputs.items[i];
        text_printf(out, "return b%u[%" PRId64 "]%s", output->buffer, output->view.offset,
                    output->view.rank ? " " : "");
        print_sizes(&output->view, out);
        text_append(out, "\n");
    }
}

static spyre_status check_texts(const text *first, arena *memory, text *second)
{
    loop_graph *again;
    uint32_t line = 1;
    TRY(text_status(first));
    TRY(loop_parse(text_string(first), "text form", NULL, memory, &again));
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
    loop_graph bare = *loops;
    bare.notes = NULL; // comments
    loop_print(&bare, &first);
    spyre_status status = check_texts(&first, memory, &second);
    text_free(&first);
    text_free(&second);
    arena_destroy(memory);
    return status;
}
