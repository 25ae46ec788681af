// SPDX-License-Identifier: Apache-2.0
#include "graph/verify.h"

#include <string.h>

#include "graph/aten.h"
#include "graph/view.h"

uint32_t graph_value_base(const spyre_graph *graph, uint32_t value)
{
    for (;;) {
        uint32_t node = graph->values.items[value].node;
        if (node == SPYRE_NO_ID || graph->nodes.items[node].layer != GRAPH_LAYER_VIEW) return value;
        value = graph->nodes.items[node].args[0].of.value;
    }
}

void graph_find_bases(const spyre_graph *graph, uint32_t *out_base)
{
    for (uint32_t i = 0; i < graph->values.count; i++) out_base[i] = i;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const graph_node *node = &graph->nodes.items[i];
        if (node->layer != GRAPH_LAYER_VIEW) continue;
        for (uint32_t r = 0; r < node->result_count; r++)
            out_base[node->results[r]] = out_base[node->args[0].of.value];
    }
}

#define rule(...) status_new(SPYRE_INVALID_ARGUMENT, __VA_ARGS__)

// Per value: whether it is defined before the node being looked at, the graph input it is, and,
// when it is defined, the value in whose storage it lies.
typedef struct {
    const spyre_graph *graph;
    bool *defined;
    uint32_t *input_of, *base;
} verifier;

static spyre_status check_value_ref(const verifier *v, uint32_t value)
{
    if (value >= v->graph->values.count) {
        return rule("value %u does not exist, the graph has %u", value, v->graph->values.count);
    }
    if (v->defined[value]) return NULL;
    return rule("%%%s is used before it is defined", v->graph->values.items[value].name);
}

static spyre_status check_args(const verifier *v, const spyre_arg *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind == SPYRE_ARG_VALUE) {
            TRY(status_at(check_value_ref(v, args[i].of.value), "argument %u", i));
        } else if (args[i].kind == SPYRE_ARG_LIST) {
            TRY(status_at(check_args(v, args[i].of.list.items, args[i].of.list.count),
                          "argument %u", i));
        }
    }
    return NULL;
}

static spyre_status define(const verifier *v, uint32_t value, uint32_t node, uint32_t result)
{
    if (value >= v->graph->values.count) return rule("value %u does not exist", value);
    const graph_value *of = &v->graph->values.items[value];
    if (v->defined[value]) return rule("%%%s is defined twice", of->name);
    if (of->node != node || of->result != result) {
        return rule("%%%s names another producer", of->name);
    }
    uint32_t id = SPYRE_NO_ID;
    if (!map_string_get(&v->graph->value_names, of->name, &id) || id != value) {
        return rule("the name %%%s is not unique", of->name);
    }
    v->defined[value] = true;
    v->base[value] = value;
    return NULL;
}

// Elements of the storage that a base value lies in; -1 when a size is symbolic.
static spyre_status storage_count(const verifier *v, uint32_t base, int64_t *out_count)
{
    const spyre_graph *graph = v->graph;
    const graph_view *storage = &graph->values.items[base].view;
    if (v->input_of[base] != SPYRE_NO_ID) {
        storage = &graph->inputs.items[v->input_of[base]].storage;
    }
    spyre_view view;
    *out_count = -1;
    spyre_status status = graph_view_constant(graph, storage, &view);
    if (!status) *out_count = view_last_element(&view) + 1;
    if (spyre_status_code(status) != SPYRE_UNSUPPORTED) return status;
    spyre_status_free(status);
    return NULL;
}

// A result that reaches beyond the storage of argument 0, which no view op can give.
static spyre_status check_view_result(const spyre_graph *graph, const graph_value *of,
                                      int64_t storage)
{
    spyre_view view;
    spyre_status status = graph_view_constant(graph, &of->view, &view);
    if (spyre_status_code(status) == SPYRE_UNSUPPORTED || storage < 0) {
        spyre_status_free(status);
        return NULL;
    }
    TRY(status);
    int64_t last = view_last_element(&view);
    if (last < storage) return NULL;
    return rule("result %u: reaches element %lld of a storage of %lld", of->result, (long long)last,
                (long long)storage);
}

// Argument 0 is what a view shows; a tensor behind it would be in no segment for its sake.
static spyre_status check_view_args(const spyre_arg *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind == SPYRE_ARG_VALUE) return rule("a view has one tensor");
        if (args[i].kind == SPYRE_ARG_LIST)
            TRY(check_view_args(args[i].of.list.items, args[i].of.list.count));
    }
    return NULL;
}

static spyre_status check_view(const verifier *v, uint32_t node)
{
    const spyre_graph *graph = v->graph;
    const graph_node *n = &graph->nodes.items[node];
    int64_t storage = -1;
    if (n->arg_count == 0 || n->args[0].kind != SPYRE_ARG_VALUE) {
        return rule("argument 0: expected a tensor");
    }
    TRY(status_at(check_view_args(n->args + 1, n->arg_count - 1), "arguments behind 0"));
    const graph_value *from = &graph->values.items[n->args[0].of.value];
    uint32_t base = v->base[n->args[0].of.value];
    TRY(storage_count(v, base, &storage));
    for (uint32_t i = 0; i < n->result_count; i++) {
        const graph_value *of = &graph->values.items[n->results[i]];
        v->base[n->results[i]] = base;
        if (of->dtype != from->dtype || of->on_card != from->on_card) {
            return rule("result %u: a view has the dtype and device of what it views", i);
        }
        TRY(check_view_result(graph, of, storage));
    }
    return NULL;
}

static spyre_status check_node(const verifier *v, uint32_t node)
{
    const graph_node *n = &v->graph->nodes.items[node];
    TRY(check_args(v, n->args, n->arg_count));
    for (uint32_t i = 0; i < n->result_count; i++) TRY(define(v, n->results[i], node, i));
    if (n->location >= v->graph->locations.count) return rule("location %u", n->location);
    switch (n->layer) {
    case GRAPH_LAYER_VIEW: return check_view(v, node);
    case GRAPH_LAYER_HOST: return n->reason ? NULL : rule("a node of the host without a reason");
    case GRAPH_LAYER_DECOMPOSITION: return NULL;
    case GRAPH_LAYER_NATIVE: break;
    }
    spyre_status status = native_check(v->graph, node);
    if (spyre_status_code(status) != SPYRE_UNSUPPORTED) return status;
    // Preparation makes it a node of the host.
    spyre_status_free(status);
    return NULL;
}

spyre_status graph_verify(const spyre_graph *graph)
{
    verifier v = {graph, ARENA_NEW(graph->memory, bool, graph->values.count),
                  ARENA_NEW(graph->memory, uint32_t, graph->values.count),
                  ARENA_NEW(graph->memory, uint32_t, graph->values.count)};
    TRY_ALLOC(v.defined);
    TRY_ALLOC(v.input_of);
    TRY_ALLOC(v.base);
    for (uint32_t i = 0; i < graph->values.count; i++) v.input_of[i] = SPYRE_NO_ID;
    for (uint32_t i = 0; i < graph->inputs.count; i++) {
        TRY(status_at(define(&v, graph->inputs.items[i].value, SPYRE_NO_ID, 0), "input %u", i));
        v.input_of[graph->inputs.items[i].value] = i;
    }
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        spyre_status status = check_node(&v, i);
        if (status) return status_at(status, "%s", graph_node_place(graph, i));
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        TRY(status_at(check_value_ref(&v, graph->outputs.items[i]), "output %u", i));
    }
    return NULL;
}

spyre_status graph_verify_made(const spyre_graph *graph, const char *stage)
{
    spyre_status found = graph_verify(graph);
    if (spyre_status_code(found) != SPYRE_INVALID_ARGUMENT) return found;
    spyre_status status =
        status_new(SPYRE_INTERNAL, "after %s: %s", stage, spyre_status_message(found));
    spyre_status_free(found);
    return status;
}
