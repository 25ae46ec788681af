// SPDX-License-Identifier: Apache-2.0
#include "graph/segments/segment_graph.h"

#include <stdlib.h>

#include "graph/build.h"

typedef struct {
    const spyre_graph *from;
    spyre_graph *to;
    map_u64 values; // id of `from` -> id of `to`
} copier;

static spyre_status copy_view(copier *c, const graph_view *view, graph_view *out_view)
{
    spyre_view constant;
    TRY(graph_view_constant(c->from, view, &constant));
    return graph_view_from(c->to, &constant, out_view);
}

static spyre_status copy_value(copier *c, uint32_t value, uint32_t *out_value)
{
    const graph_value *v = &c->from->values.items[value];
    graph_type type = {.dtype = v->dtype, .on_card = v->on_card};
    TRY(copy_view(c, &v->view, &type.view));
    TRY(graph_add_value(c->to, v->name, &type, out_value));
    return map_u64_put(c->to->memory, &c->values, value, *out_value);
}

// A location or a hint.
static spyre_status copy_text(const copier *c, uint32_t from, uint32_t *out)
{
    return from ? graph_add_location(c->to, c->from->locations.items[from], out) : NULL;
}

// An input keeps the storage and layout of a graph input; what another segment makes has the layout
// that this segment will choose, which is not known yet.
static spyre_status copy_input(copier *c, uint32_t value, const graph_input *known)
{
    graph_input input = {0};
    TRY(copy_value(c, value, &input.value));
    const graph_view *storage = known ? &known->storage : &c->from->values.items[value].view;
    TRY(copy_view(c, storage, &input.storage));
    if (known) {
        input.layout = known->layout;
        TRY(copy_text(c, known->dims, &input.dims));
    }
    return VEC_PUSH(c->to->memory, &c->to->inputs, input);
}

static spyre_status copy_arg(copier *c, const spyre_arg *arg, spyre_arg *out_arg)
{
    *out_arg = *arg;
    if (arg->kind == SPYRE_ARG_VALUE) {
        bool known = map_u64_get(&c->values, arg->of.value, &out_arg->of.value);
        if (known) return NULL;
        return status_new(SPYRE_INTERNAL, "%s is not in the segment",
                          c->from->values.items[arg->of.value].name);
    }
    if (arg->kind != SPYRE_ARG_LIST) return NULL;
    uint32_t count = arg->of.list.count;
    spyre_arg *items = ARENA_NEW(c->to->memory, spyre_arg, count);
    TRY_ALLOC(items);
    for (uint32_t i = 0; i < count; i++) TRY(copy_arg(c, &arg->of.list.items[i], &items[i]));
    out_arg->of.list.items = items;
    return NULL;
}

static spyre_status copy_node(copier *c, uint32_t id)
{
    const graph_node *n = &c->from->nodes.items[id];
    spyre_arg *args = ARENA_NEW(c->to->memory, spyre_arg, n->arg_count);
    uint32_t *results = ARENA_NEW(c->to->memory, uint32_t, n->result_count), added;
    TRY_ALLOC(args);
    TRY_ALLOC(results);
    graph_new_node node = {.op_name = n->op_name,
                           .args = args,
                           .arg_count = n->arg_count,
                           .results = results,
                           .result_count = n->result_count,
                           .origin = n->origin};
    for (uint32_t i = 0; i < n->arg_count; i++) TRY(copy_arg(c, &n->args[i], &args[i]));
    for (uint32_t i = 0; i < n->result_count; i++) {
        TRY(copy_value(c, n->results[i], &results[i]));
    }
    TRY(copy_text(c, n->location, &node.location));
    TRY(copy_text(c, n->hint.work_div, &node.hint.work_div));
    TRY(copy_text(c, n->hint.tiles, &node.hint.tiles));
    TRY(copy_text(c, n->hint.dims, &node.hint.dims));
    return graph_add_node(c->to, &node, &added);
}

// The segment's output that is `value`, plus one; 0 when it has none.
static uint32_t output_of(const segment_draft *draft, uint32_t value)
{
    for (uint32_t i = 0; i < draft->outputs.count; i++)
        if (draft->outputs.items[i] == value) return i + 1;
    return 0;
}

// The segment's own graph, a card segment's.
static spyre_status build_graph(const spyre_graph *prepared, const uint32_t *input_of,
                                const uint32_t *update_of, const segment_draft *draft,
                                arena *memory, spyre_graph **out_graph)
{
    copier c = {.from = prepared, .to = graph_create(memory)};
    TRY_ALLOC(c.to);
    c.to->extended = prepared->extended;
    for (uint32_t i = 0; i < draft->inputs.count; i++) {
        uint32_t value = draft->inputs.items[i];
        uint32_t input = input_of[value];
        const graph_input *known = input == SPYRE_NO_ID ? NULL : &prepared->inputs.items[input];
        TRY(copy_input(&c, value, known));
        if (update_of[value] != SPYRE_NO_ID)
            c.to->inputs.items[i].update = output_of(draft, update_of[value]);
    }
    for (uint32_t i = 0; i < draft->nodes.count; i++) TRY(copy_node(&c, draft->nodes.items[i]));
    for (uint32_t i = 0; i < draft->outputs.count; i++) {
        uint32_t value;
        if (!map_u64_get(&c.values, draft->outputs.items[i], &value)) {
            return status_new(SPYRE_INTERNAL, "output %u is not made", i);
        }
        TRY(VEC_PUSH(memory, &c.to->outputs, value));
    }
    c.to->caller_node_count = prepared->caller_node_count;
    *out_graph = c.to;
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// The caller's nodes behind the segment's, ascending, each once.
static spyre_status collect_origins(const spyre_graph *prepared, const segment_draft *draft,
                                    arena *memory, graph_segment *segment)
{
    uint32_t *origins = ARENA_NEW(memory, uint32_t, draft->nodes.count), count = 0;
    TRY_ALLOC(origins);
    for (uint32_t i = 0; i < draft->nodes.count; i++) {
        origins[i] = prepared->nodes.items[draft->nodes.items[i]].origin;
    }
    if (draft->nodes.count) qsort(origins, draft->nodes.count, sizeof *origins, compare_ids);
    for (uint32_t i = 0; i < draft->nodes.count; i++) {
        if (count == 0 || origins[count - 1] != origins[i]) origins[count++] = origins[i];
    }
    segment->nodes = origins;
    segment->node_count = count;
    return NULL;
}

spyre_status segment_build(const spyre_graph *prepared, const uint32_t *input_of,
                           const uint32_t *update_of, const segment_draft *draft, arena *memory,
                           graph_segment *out_segment)
{
    *out_segment = (graph_segment){.kind = draft->kind,
                                   .inputs = draft->inputs.items,
                                   .input_count = draft->inputs.count,
                                   .outputs = draft->outputs.items,
                                   .output_count = draft->outputs.count};
    TRY(collect_origins(prepared, draft, memory, out_segment));
    if (draft->kind == SPYRE_SEGMENT_HOST) return NULL;
    return build_graph(prepared, input_of, update_of, draft, memory, &out_segment->graph);
}
