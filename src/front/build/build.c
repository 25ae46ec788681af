// SPDX-License-Identifier: Apache-2.0
//
// From graph to loop IR: inputs, nodes, outputs, one buffer a storage. View nodes vanish: a value
// is a view of its buffer's host storage, and accesses are written in its strides.
#include "front/build/build.h"
#include "front/front.h"

#include <string.h>

#include "graph/view.h"

static spyre_status build_input(builder *b, uint32_t index)
{
    const graph_input *input = &b->graph->inputs.items[index];
    const graph_value *value = &b->graph->values.items[input->value];
    loop_buffer buffer = {.name = value->name,
                          .kind = LOOP_INPUT,
                          .index = index,
                          .dtype = value->dtype,
                          .output = -1};
    TRY(graph_view_constant(b->graph, &input->storage, &buffer.storage));
    loop_set_dims(&buffer);
    TRY(status_at(front_take_layout(b->loops->memory, &buffer, &input->layout),
                  "input %s: layout", value->name));
    b->buffer_of[input->value] = b->loops->buffers.count;
    return VEC_PUSH(b->loops->memory, &b->loops->buffers, buffer);
}

// A constant that the graph returns must become memory of its own: one element, however often the
// value repeats it.
static spyre_status materialize(builder *b, uint32_t value, uint32_t *out)
{
    uint32_t constant = b->buffer_of[value];
    const loop_buffer from = b->loops->buffers.items[constant];
    spyre_view view;
    TRY(build_view(b, value, &view));
    for (uint32_t d = 0; d < view.rank; d++)
        if (view.stride[d] == 0) view.size[d] = 1;
    TRY(loop_add_local(b->loops, from.name, from.dtype, from.format, &view, out));
    space dims = {.rank = view.rank};
    memcpy(dims.size, view.size, sizeof view.size);
    loop_op op;
    TRY(build_begin_op(b, OPFUNC_IDENTITY, &dims, &op));
    int64_t still[LOOP_MAX_VARS + 2] = {0};
    build_add_access(&op, &dims, constant, 0, still);
    build_add_access(&op, &dims, *out, 0, view.stride);
    return build_finish_op(b, &op);
}

// The input that the next output replaces. Only an output that is seen through the same view may be
// written in its place.
static spyre_status mark_replaced(const builder *b, const spyre_view *view)
{
    uint32_t output = b->loops->outputs.count + 1;
    for (uint32_t i = 0; i < b->graph->inputs.count; i++) {
        const graph_input *input = &b->graph->inputs.items[i];
        spyre_view old;
        if (input->update != output) continue;
        TRY(build_view(b, input->value, &old));
        if (view_same(&old, view))
            b->loops->buffers.items[b->buffer_of[input->value]].replaced_by = output;
    }
    return NULL;
}

static spyre_status build_output(builder *b, uint32_t value)
{
    TRY(build_settle_count(b, value));
    uint32_t id = b->buffer_of[value];
    if (id == SPYRE_NO_ID)
        return status_new(SPYRE_INTERNAL, "output %s was never computed",
                          b->graph->values.items[value].name);
    if (b->loops->buffers.items[id].kind == LOOP_CONSTANT) TRY(materialize(b, value, &id));
    loop_buffer *buffer = &b->loops->buffers.items[id];
    loop_output output = {.value = value, .buffer = id};
    TRY(build_view(b, value, &output.view));
    TRY(mark_replaced(b, &output.view));
    if (buffer->kind == LOOP_LOCAL && buffer->output < 0)
        buffer->output = (int32_t)b->loops->output_buffer_count++;
    return VEC_PUSH(b->loops->memory, &b->loops->outputs, output);
}

// An op and a buffer a node, and some that passes add: lists that double leave as much behind.
static spyre_status make_room(loop_graph *loops, const spyre_graph *graph)
{
    uint32_t ops = graph->nodes.count + graph->nodes.count / 8 + 8;
    uint32_t buffers = ops + graph->inputs.count;
    TRY(VEC_ROOM(loops->memory, &loops->ops, ops));
    return VEC_ROOM(loops->memory, &loops->buffers, buffers);
}

static spyre_status build_all(builder *b)
{
    const spyre_graph *graph = b->graph;
    TRY(make_room(b->loops, graph));
    TRY_NEW(b->loops->memory, b->buffer_of, graph->values.count);
    TRY_NEW(b->loops->memory, b->counts, graph->values.count);
    for (uint32_t v = 0; v < graph->values.count; v++) b->buffer_of[v] = SPYRE_NO_ID;
    for (uint32_t i = 0; i < graph->inputs.count; i++) TRY(build_input(b, i));
    for (b->node = 0; b->node < graph->nodes.count; b->node++) TRY(build_node(b));
    b->node = graph->nodes.count ? graph->nodes.count - 1 : 0;
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        TRY(build_output(b, graph->outputs.items[i]));
    return NULL;
}

spyre_status front_build(const spyre_graph *graph, arena *memory, uint32_t *out_node,
                         loop_graph **out_loops)
{
    *out_node = 0;
    loop_graph *loops = arena_alloc(memory, sizeof *loops);
    TRY_ALLOC(loops);
    *loops = (loop_graph){.memory = memory, .graph = graph, .cores = 32};
    loops->settings = spyre_settings_default();
    TRY_NEW(memory, loops->at_node, 1);
    spyre_status status = build_all(&(builder){.loops = loops, .graph = graph});
    *out_node = *loops->at_node;
    *out_loops = loops;
    return status;
}
