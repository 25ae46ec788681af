// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "graph/graph.h"

const char *graph_node_place(const spyre_graph *graph, uint32_t node)
{
    const graph_node *n = &graph->nodes.items[node];
    const char *place = n->location
                            ? arena_printf(graph->memory, "node %u %s (%s)", n->origin, n->op_name,
                                           graph->locations.items[n->location])
                            : arena_printf(graph->memory, "node %u %s", n->origin, n->op_name);
    return place ? place : n->op_name;
}

spyre_status graph_view_constant(const spyre_graph *graph, const graph_view *view,
                                 spyre_view *out_view)
{
    *out_view = (spyre_view){.rank = view->rank};
    for (uint32_t i = 0; i <= 2 * view->rank; i++) {
        bool is_offset = i == 2 * view->rank, is_size = i < view->rank;
        uint32_t dim = is_size ? i : i - view->rank;
        expr_id e = is_offset ? view->offset : is_size ? view->size[dim] : view->stride[dim];
        int64_t *out = is_offset ? &out_view->offset
                       : is_size ? &out_view->size[dim]
                                 : &out_view->stride[dim];
        if (expr_is_constant(graph->exprs, e, out)) continue;
        text symbol = {0};
        expr_print(graph->exprs, e, &symbol);
        spyre_status status =
            is_offset
                ? status_new(SPYRE_UNSUPPORTED, "offset %s is not a constant", text_string(&symbol))
                : status_new(SPYRE_UNSUPPORTED, "%s %u, %s, is not a constant",
                             is_size ? "size" : "stride", dim, text_string(&symbol));
        text_free(&symbol);
        return status;
    }
    return NULL;
}

static const char *kind_name(spyre_arg_kind kind)
{
    switch (kind) {
    case SPYRE_ARG_NONE: return "none";
    case SPYRE_ARG_VALUE: return "a tensor";
    case SPYRE_ARG_INT: return "an int";
    case SPYRE_ARG_FLOAT: return "a float";
    case SPYRE_ARG_BOOL: return "a bool";
    case SPYRE_ARG_DTYPE: return "a dtype";
    case SPYRE_ARG_STRING: return "a string";
    case SPYRE_ARG_LIST: return "a list";
    case SPYRE_ARG_SCALAR: return "a number of each launch";
    }
    return "something unknown";
}

static spyre_status wrong_kind(const spyre_graph *graph, uint32_t node, uint32_t index,
                               const char *expected, spyre_arg_kind found)
{
    return status_new(SPYRE_INVALID_ARGUMENT, "%s: argument %u: expected %s, found %s",
                      graph_node_place(graph, node), index, expected, kind_name(found));
}

// Null when the argument is missing or NONE.
static const spyre_arg *find_arg(const spyre_graph *graph, uint32_t node, uint32_t index)
{
    const graph_node *n = &graph->nodes.items[node];
    if (index >= n->arg_count || n->args[index].kind == SPYRE_ARG_NONE) return NULL;
    return &n->args[index];
}

spyre_status graph_arg_value(const spyre_graph *graph, uint32_t node, uint32_t index,
                             uint32_t *out_value)
{
    const spyre_arg *arg = find_arg(graph, node, index);
    *out_value = SPYRE_NO_ID;
    if (!arg) return NULL;
    if (arg->kind != SPYRE_ARG_VALUE) return wrong_kind(graph, node, index, "a tensor", arg->kind);
    *out_value = arg->of.value;
    return NULL;
}

spyre_status graph_arg_int(const spyre_graph *graph, uint32_t node, uint32_t index,
                           int64_t fallback, int64_t *out)
{
    const spyre_arg *arg = find_arg(graph, node, index);
    *out = fallback;
    if (!arg) return NULL;
    if (arg->kind != SPYRE_ARG_INT) return wrong_kind(graph, node, index, "an int", arg->kind);
    *out = arg->of.integer;
    return NULL;
}

spyre_status graph_arg_real(const spyre_graph *graph, uint32_t node, uint32_t index,
                            double fallback, double *out)
{
    const spyre_arg *arg = find_arg(graph, node, index);
    *out = fallback;
    if (!arg) return NULL;
    if (arg->kind == SPYRE_ARG_FLOAT) {
        *out = arg->of.real;
    } else if (arg->kind == SPYRE_ARG_INT) {
        *out = (double)arg->of.integer;
    } else if (arg->kind == SPYRE_ARG_BOOL) {
        *out = arg->of.boolean ? 1.0 : 0.0;
    } else if (arg->kind == SPYRE_ARG_SCALAR) {
        return status_new(SPYRE_UNSUPPORTED, "%s: argument %u: the program depends on its value",
                          graph_node_place(graph, node), index);
    } else {
        return wrong_kind(graph, node, index, "a number", arg->kind);
    }
    return NULL;
}

spyre_status graph_arg_number(const spyre_graph *graph, uint32_t node, uint32_t index,
                              double fallback, graph_number *out)
{
    const spyre_arg *arg = find_arg(graph, node, index);
    *out = (graph_number){.value = fallback};
    if (!arg || arg->kind != SPYRE_ARG_SCALAR)
        return graph_arg_real(graph, node, index, fallback, &out->value);
    *out = (graph_number){.value = arg->of.scalar.like,
                          .scalar = arg->of.scalar.index + 1,
                          .form = arg->of.scalar.form,
                          .is_int = arg->of.scalar.is_int};
    return NULL;
}

spyre_status graph_arg_bool(const spyre_graph *graph, uint32_t node, uint32_t index, bool fallback,
                            bool *out)
{
    const spyre_arg *arg = find_arg(graph, node, index);
    *out = fallback;
    if (!arg) return NULL;
    if (arg->kind != SPYRE_ARG_BOOL) return wrong_kind(graph, node, index, "a bool", arg->kind);
    *out = arg->of.boolean;
    return NULL;
}

spyre_status graph_arg_ints(const spyre_graph *graph, uint32_t node, uint32_t index, int64_t *out,
                            uint32_t *out_count)
{
    const spyre_arg *arg = find_arg(graph, node, index);
    *out_count = 0;
    if (!arg) return NULL;
    const spyre_arg *items = arg->kind == SPYRE_ARG_LIST ? arg->of.list.items : arg;
    uint32_t count = arg->kind == SPYRE_ARG_LIST ? arg->of.list.count : 1;
    if (count > SPYRE_MAX_RANK) {
        return status_new(SPYRE_UNSUPPORTED, "%s: argument %u: %u ints, at most %d are supported",
                          graph_node_place(graph, node), index, count, SPYRE_MAX_RANK);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].kind != SPYRE_ARG_INT) {
            return wrong_kind(graph, node, index, "ints", items[i].kind);
        }
        out[i] = items[i].of.integer;
    }
    *out_count = count;
    return NULL;
}
