// SPDX-License-Identifier: Apache-2.0
//
// A graph as its caller builds it (spyre/graph.h): types with constants for sizes, results named
// after their node. What fails leaves the graph as it was.
#include <string.h>

#include "graph/build.h"
#include "isa/isa.h"

spyre_status spyre_graph_create(spyre_graph **out_graph)
{
    *out_graph = NULL;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    *out_graph = graph_create(memory);
    if (*out_graph) return NULL;
    arena_destroy(memory);
    return status_no_memory();
}

void spyre_graph_destroy(spyre_graph *graph)
{
    if (graph) arena_destroy(graph->memory);
}

static spyre_status type_from(spyre_graph *graph, const spyre_tensor_type *type,
                              graph_type *out_type)
{
    TRY(graph_check_rank(type->view.rank));
    *out_type = (graph_type){.dtype = type->dtype, .on_card = type->on_card};
    return graph_view_from(graph, &type->view, &out_type->view);
}

static spyre_status add_public_input(spyre_graph *graph, const char *name,
                                     const spyre_tensor_type *type, const spyre_view *storage,
                                     const spyre_layout *layout, uint32_t *out_value)
{
    if (!type) return status_new(SPYRE_INVALID_ARGUMENT, "the type is missing");
    if (!storage != !layout) {
        return status_new(SPYRE_INVALID_ARGUMENT, "storage and layout come together or not at all");
    }
    graph_type own_type;
    graph_view own_storage;
    TRY(type_from(graph, type, &own_type));
    if (storage) {
        TRY(status_at(graph_check_rank(storage->rank), "storage"));
        TRY(graph_view_from(graph, storage, &own_storage));
    }
    TRY(graph_add_value(graph, name, &own_type, out_value));
    return graph_add_input(graph, *out_value, storage ? &own_storage : NULL, layout);
}

spyre_status spyre_graph_add_input(spyre_graph *graph, const char *name,
                                   const spyre_tensor_type *type, const spyre_view *storage,
                                   const spyre_layout *layout, uint32_t *out_value)
{
    uint32_t before = graph->values.count;
    spyre_status status = add_public_input(graph, name, type, storage, layout, out_value);
    if (!status) return NULL;
    graph->values.count = before;
    return status_at(status, "input %u \"%.60s\"", graph->inputs.count, name ? name : "");
}

// Results are named after the node, "split.0", "split.1" when there are several.
static spyre_status add_results(spyre_graph *graph, const char *name,
                                const spyre_tensor_type *outputs, uint32_t output_count,
                                uint32_t *out_values)
{
    for (uint32_t i = 0; i < output_count; i++) {
        const char *own_name = name;
        if (name && output_count > 1) {
            own_name = arena_printf(graph->memory, "%s.%u", name, i);
            TRY_ALLOC(own_name);
        }
        graph_type type;
        TRY(status_at(type_from(graph, &outputs[i], &type), "result %u", i));
        TRY(status_at(graph_add_value(graph, own_name, &type, &out_values[i]), "result %u", i));
    }
    return NULL;
}

static spyre_status check_node_call(const char *op, const spyre_arg *args, uint32_t arg_count,
                                    const spyre_tensor_type *outputs, uint32_t output_count)
{
    if (!op) return status_new(SPYRE_INVALID_ARGUMENT, "the op is missing");
    if (arg_count && !args) return status_new(SPYRE_INVALID_ARGUMENT, "arguments are missing");
    if (arg_count > GRAPH_MOST_ITEMS) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%u arguments, at most %d are allowed", arg_count,
                          GRAPH_MOST_ITEMS);
    }
    if (output_count && !outputs) {
        return status_new(SPYRE_INVALID_ARGUMENT, "the types of the results are missing");
    }
    if (output_count <= GRAPH_MOST_RESULTS) return NULL;
    return status_new(SPYRE_INVALID_ARGUMENT, "%u results, at most %d are allowed", output_count,
                      GRAPH_MOST_RESULTS);
}

static spyre_status add_public_node(spyre_graph *graph, const char *name, const char *op,
                                    const spyre_arg *args, uint32_t arg_count,
                                    const spyre_tensor_type *outputs, uint32_t output_count,
                                    const char *location, uint32_t *out_node, uint32_t *out_values)
{
    TRY(check_node_call(op, args, arg_count, outputs, output_count));
    graph_new_node node = {.op_name = op, .arg_count = arg_count, .result_count = output_count};
    // Arguments first: a node must not see its own results.
    const spyre_arg *own_args = NULL;
    TRY(graph_copy_args(graph, args, arg_count, &own_args));
    TRY(graph_add_location(graph, location, &node.location));
    TRY(add_results(graph, name, outputs, output_count, out_values));
    node.results = out_values;
    node.origin = graph->nodes.count;
    return graph_append_node(graph, &node, own_args, out_node);
}

spyre_status spyre_graph_add_node(spyre_graph *graph, const char *name, const char *op,
                                  const spyre_arg *args, uint32_t arg_count,
                                  const spyre_tensor_type *outputs, uint32_t output_count,
                                  const char *location, uint32_t *out_node, uint32_t *out_values)
{
    uint32_t before = graph->values.count, node = SPYRE_NO_ID;
    spyre_status status = add_public_node(graph, name, op, args, arg_count, outputs, output_count,
                                          location, &node, out_values);
    if (status) {
        graph->values.count = before;
        return status_at(status, "node %u %.60s", graph->nodes.count, op ? op : "");
    }
    graph->caller_node_count = graph->nodes.count;
    if (out_node) *out_node = node;
    return NULL;
}

// What a tensor of the card takes at least, were its elements in one row; 0 when that is not known.
static int64_t least_card_bytes(const graph_value *value, const spyre_view *view)
{
    int64_t elements = 1;
    spyre_layout layout;
    for (uint32_t d = 0; d < view->rank; d++) {
        if (view->size[d] == 0) return 0;
        elements += (view->size[d] - 1) * view->stride[d];
    }
    spyre_status status = spyre_layout_default(&elements, 1, value->dtype, &layout);
    bool known = !status;
    spyre_status_free(status);
    return known ? spyre_layout_bytes(&layout) : 0;
}

// A result lies in one segment of the card. Says so before anything is compiled.
static spyre_status check_room(const spyre_graph *graph, const graph_value *value)
{
    spyre_view view;
    if (!value->on_card || value->node == SPYRE_NO_ID) return NULL;
    spyre_status status = graph_view_constant(graph, &value->view, &view);
    bool known = !status;
    spyre_status_free(status);
    int64_t bytes = known ? least_card_bytes(value, &view) : 0;
    if (bytes <= (int64_t)ISA_SEGMENT_BYTES) return NULL;
    return status_new(SPYRE_OUT_OF_MEMORY,
                      "result %s takes %lld bytes of card memory, a segment has %lld", value->name,
                      (long long)bytes, (long long)ISA_SEGMENT_BYTES);
}

spyre_status spyre_graph_add_output(spyre_graph *graph, uint32_t value)
{
    if (value < graph->values.count) {
        TRY(check_room(graph, &graph->values.items[value]));
        return VEC_PUSH(graph->memory, &graph->outputs, value);
    }
    return status_new(SPYRE_INVALID_ARGUMENT,
                      "output %u: value %u does not exist, the graph has %u", graph->outputs.count,
                      value, graph->values.count);
}

static bool same_type(const graph_value *a, const graph_value *b)
{
    size_t sizes = a->view.rank * sizeof a->view.size[0];
    return a->dtype == b->dtype && a->view.rank == b->view.rank &&
           memcmp(a->view.size, b->view.size, sizes) == 0;
}

static spyre_status refuse_update(const spyre_graph *graph, const char *why)
{
    return status_new(SPYRE_INVALID_ARGUMENT, "output %u: %s", graph->outputs.count, why);
}

spyre_status spyre_graph_add_update(spyre_graph *graph, uint32_t value, uint32_t input)
{
    graph_input *target = NULL;
    for (uint32_t i = 0; i < graph->inputs.count && !target; i++)
        if (graph->inputs.items[i].value == input) target = &graph->inputs.items[i];
    if (!target) return refuse_update(graph, "what it updates is no input");
    if (target->update) return refuse_update(graph, "the input has an update already");
    if (value < graph->values.count &&
        !same_type(&graph->values.items[value], &graph->values.items[input]))
        return refuse_update(graph, "an update has the dtype and sizes of the input");
    TRY(spyre_graph_add_output(graph, value));
    target->update = graph->outputs.count;
    return NULL;
}
