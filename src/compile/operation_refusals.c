// SPDX-License-Identifier: Apache-2.0
#include "compile/operation_refusals.h"

#include <string.h>

#include "base/map.h"
#include "base/text.h"

spyre_status refusals_begin(const spyre_graph *graph, arena *memory, refusals *out_refusals)
{
    refusals r = {.graph = graph, .memory = memory};
    TRY_NEW(memory, r.reason, graph->nodes.count);
    *out_refusals = r;
    return NULL;
}

static void put_number(uint32_t number, text *key)
{
    text_append_bytes(key, (const char *)&number, sizeof number);
}

// Expressions are interned: equal ones have equal ids.
static void put_type(const spyre_graph *graph, uint32_t id, text *key)
{
    const graph_value *value = &graph->values.items[id];
    put_number(value->dtype, key);
    put_number(value->on_card, key);
    put_number(value->view.rank, key);
    put_number(value->view.offset, key);
    for (uint32_t d = 0; d < value->view.rank; d++) {
        put_number(value->view.size[d], key);
        put_number(value->view.stride[d], key);
    }
}

static void put_operands(const spyre_graph *graph, const spyre_arg *args, uint32_t count,
                         text *key)
{
    put_number(count, key);
    for (uint32_t i = 0; i < count; i++) {
        put_number(args[i].kind, key);
        if (args[i].kind == SPYRE_ARG_SCALAR) put_number(args[i].of.scalar.is_int, key);
        if (args[i].kind == SPYRE_ARG_VALUE) put_type(graph, args[i].of.value, key);
        if (args[i].kind == SPYRE_ARG_LIST)
            put_operands(graph, args[i].of.list.items, args[i].of.list.count, key);
    }
}

// What nodes of one kind have in common, as bytes.
static void put_kind(const spyre_graph *graph, const graph_node *node, text *key)
{
    key->length = 0;
    text_append_bytes(key, node->op_name, strlen(node->op_name) + 1);
    put_operands(graph, node->args, node->arg_count, key);
    for (uint32_t i = 0; i < node->result_count; i++) put_type(graph, node->results[i], key);
}

static spyre_status intern_kinds(const spyre_graph *graph, arena *memory, text *key,
                                 uint32_t *out_kind)
{
    map_bytes kinds = {0};
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        put_kind(graph, &graph->nodes.items[n], key);
        TRY(text_status(key));
        TRY(map_bytes_intern(memory, &kinds, key->bytes, key->length, n, &out_kind[n]));
    }
    return NULL;
}

// The kind of every node, named by the first node of that kind.
static spyre_status find_kinds(refusals *r)
{
    text key = {0};
    TRY_NEW(r->memory, r->kind, r->graph->nodes.count);
    spyre_status status = intern_kinds(r->graph, r->memory, &key, r->kind);
    text_free(&key);
    return status;
}

bool refusals_has_way(const refusals *r, uint32_t node)
{
    return !r->reason[node] || r->reason[node] == GRAPH_GATHERED;
}

spyre_status refusals_add(refusals *r, uint32_t node, const char *reason)
{
    const char *copy = reason == GRAPH_GATHERED ? reason : arena_strdup(r->memory, reason);
    TRY_ALLOC(copy);
    if (!r->kind) TRY(find_kinds(r));
    bool again = false;
    for (uint32_t n = 0; n < r->graph->nodes.count && !again; n++)
        again = r->reason[n] && r->kind[n] == r->kind[node];
    for (uint32_t n = 0; n < r->graph->nodes.count && again; n++)
        if (refusals_has_way(r, n) && r->kind[n] == r->kind[node]) r->reason[n] = copy;
    r->reason[node] = copy;
    return NULL;
}
