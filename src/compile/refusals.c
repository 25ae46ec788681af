// SPDX-License-Identifier: Apache-2.0
#include "compile/refusals.h"

#include <string.h>

spyre_status refusals_begin(const spyre_graph *graph, arena *memory, refusals *out_refusals)
{
    refusals r = {.graph = graph, .memory = memory};
    r.reason = ARENA_NEW(memory, const char *, graph->nodes.count);
    TRY_ALLOC(r.reason);
    *out_refusals = r;
    return NULL;
}

// Expressions are interned: equal ones have equal ids.
static bool same_type(const spyre_graph *graph, uint32_t a, uint32_t b)
{
    const graph_value *x = &graph->values.items[a], *y = &graph->values.items[b];
    if (x->dtype != y->dtype || x->on_card != y->on_card || x->view.rank != y->view.rank ||
        x->view.offset != y->view.offset)
        return false;
    size_t bytes = x->view.rank * sizeof *x->view.size;
    return memcmp(x->view.size, y->view.size, bytes) == 0 &&
           memcmp(x->view.stride, y->view.stride, bytes) == 0;
}

static bool same_operands(const spyre_graph *graph, const spyre_arg *a, const spyre_arg *b,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (a[i].kind != b[i].kind) return false;
        if (a[i].kind == SPYRE_ARG_VALUE && !same_type(graph, a[i].of.value, b[i].of.value))
            return false;
        if (a[i].kind == SPYRE_ARG_LIST &&
            (a[i].of.list.count != b[i].of.list.count ||
             !same_operands(graph, a[i].of.list.items, b[i].of.list.items, a[i].of.list.count)))
            return false;
    }
    return true;
}

static bool same_kind(const spyre_graph *graph, const graph_node *a, const graph_node *b)
{
    if (strcmp(a->op_name, b->op_name) != 0 || a->arg_count != b->arg_count ||
        a->result_count != b->result_count || !same_operands(graph, a->args, b->args, a->arg_count))
        return false;
    for (uint32_t i = 0; i < a->result_count; i++)
        if (!same_type(graph, a->results[i], b->results[i])) return false;
    return true;
}

spyre_status refusals_add(refusals *r, uint32_t node, const char *reason)
{
    const spyre_graph *graph = r->graph;
    const char *copy = arena_strdup(r->memory, reason);
    TRY_ALLOC(copy);
    bool again = false;
    for (uint32_t n = 0; n < graph->nodes.count && !again; n++)
        again = r->reason[n] && same_kind(graph, &graph->nodes.items[n], &graph->nodes.items[node]);
    for (uint32_t n = 0; n < graph->nodes.count && again; n++)
        if (!r->reason[n] && same_kind(graph, &graph->nodes.items[n], &graph->nodes.items[node]))
            r->reason[n] = copy;
    r->reason[node] = copy;
    return NULL;
}
