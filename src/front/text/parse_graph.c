// SPDX-License-Identifier: Apache-2.0
//
// The graph that a text of the loop IR stands for: inputs with their layouts, outputs, and nodes
// that carry the user's hints. What the nodes computed is in the ops.
#include "front/front.h"
#include "front/text/parse.h"
#include "graph/build.h"

static spyre_status add_value(spyre_graph *graph, const loop_buffer *buffer,
                              const spyre_view *view, uint32_t *out)
{
    graph_value value = {.dtype = buffer->dtype,
                         .on_card = true,
                         .node = SPYRE_NO_ID,
                         .name = buffer->name};
    TRY(graph_view_from(graph, view, &value.view));
    *out = graph->values.count;
    return VEC_PUSH(graph->memory, &graph->values, value);
}

// The names' view is that of the value, which may order the dims of its storage otherwise.
static spyre_status add_input(spyre_graph *graph, const loop_buffer *buffer,
                              const parse_names *names)
{
    graph_input input = {0};
    if (!buffer->has_layout)
        return status_new(SPYRE_INVALID_FORMAT, "input %s has no layout", buffer->name);
    if (buffer->dim_count > SPYRE_MAX_RANK)
        return status_new(SPYRE_INVALID_FORMAT, "input %s has more than %d dims", buffer->name,
                          SPYRE_MAX_RANK);
    TRY(status_at(front_buffer_layout(buffer, &input.layout), "input %s", buffer->name));
    TRY(graph_view_from(graph, &buffer->storage, &input.storage));
    TRY(add_value(graph, buffer, names->text ? &names->view : &buffer->storage, &input.value));
    TRY(graph_add_location(graph, names->text, &input.dims));
    return VEC_PUSH(graph->memory, &graph->inputs, input);
}

static spyre_status add_node(spyre_graph *graph, const parse_node *from)
{
    graph_node node = {.op = SPYRE_NO_ID, .op_name = "", .layer = GRAPH_LAYER_NATIVE};
    static const loop_buffer unnamed = {.name = ""};
    TRY(graph_add_location(graph, from->work_div, &node.hint.work_div));
    TRY(graph_add_location(graph, from->tiles, &node.hint.tiles));
    TRY(graph_add_location(graph, from->names.text, &node.hint.dims));
    if (from->names.text) {
        uint32_t *result = ARENA_NEW(graph->memory, uint32_t, 1);
        TRY_ALLOC(result);
        TRY(add_value(graph, &unnamed, &from->names.view, result));
        node.results = result;
        node.result_count = 1;
    }
    return VEC_PUSH(graph->memory, &graph->nodes, node);
}

// Output buffers are numbered from 0, each number once.
static spyre_status number_outputs(loop_graph *loops)
{
    bool *known = ARENA_NEW(loops->memory, bool, loops->buffers.count);
    TRY_ALLOC(known);
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->output < 0) continue;
        uint32_t number = (uint32_t)buffer->output;
        if (buffer->kind != LOOP_LOCAL || number >= loops->buffers.count || known[number])
            return status_new(SPYRE_INVALID_FORMAT,
                              "b%u: output(%u): an input, a number above all outputs, or a "
                              "second one",
                              b, number);
        known[number] = true;
        loops->output_buffer_count++;
    }
    for (uint32_t n = 0; n < loops->output_buffer_count; n++)
        if (!known[n]) return status_new(SPYRE_INVALID_FORMAT, "output(%u) is missing", n);
    return NULL;
}

static spyre_status add_outputs(loop_graph *loops, spyre_graph *graph)
{
    for (uint32_t i = 0; i < loops->outputs.count; i++) {
        loop_output *output = &loops->outputs.items[i];
        TRY(add_value(graph, &loops->buffers.items[output->buffer], &output->view,
                      &output->value));
        TRY(VEC_PUSH(graph->memory, &graph->outputs, output->value));
    }
    return NULL;
}

spyre_status parse_make_graph(parse_reader *r)
{
    loop_graph *loops = r->loops;
    spyre_graph *graph = graph_create(loops->memory);
    TRY_NEW(loops->memory, loops->at_node, 1);
    TRY_ALLOC(graph);
    loops->graph = graph;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind == LOOP_INPUT)
            TRY(status_at(add_input(graph, buffer, &r->inputs.items[buffer->index]), "%s",
                          r->in.file_name));
    }
    for (uint32_t i = 0; i < r->nodes.count; i++) TRY(add_node(graph, &r->nodes.items[i]));
    TRY(status_at(number_outputs(loops), "%s", r->in.file_name));
    return add_outputs(loops, graph);
}
