// SPDX-License-Identifier: Apache-2.0
#include "graph/effect.h"

#include <string.h>

static bool starts_with(const char *string, const char *start)
{
    return strncmp(string, start, strlen(start)) == 0;
}

// True for "aten.copy_.default", false for "aten.__and__.Scalar".
static bool writes_in_place(const char *op_name)
{
    const char *overload = strrchr(op_name, '.');
    if (!overload || overload - op_name < 2) return false;
    return overload[-1] == '_' && overload[-2] != '_';
}

graph_effect graph_effect_of(const graph_node *node)
{
    static const char *const random[] = {"rand",    "bernoulli",   "dropout",     "normal",
                                         "uniform", "multinomial", "exponential", "poisson"};
    const char *name = node->op_name;
    if (node->layer != GRAPH_LAYER_HOST) return EFFECT_NONE;
    if (starts_with(name, "_c10d_functional.") && !writes_in_place(name)) return EFFECT_EXCHANGE;
    bool known =
        starts_with(name, "aten.") || starts_with(name, "prims.") || starts_with(name, "spyre.");
    if (!known || node->result_count == 0) return EFFECT_UNKNOWN;
    if (writes_in_place(name)) return EFFECT_WRITES;
    for (size_t i = 0; i < sizeof random / sizeof random[0]; i++) {
        if (strstr(name, random[i])) return EFFECT_RANDOM;
    }
    return EFFECT_NONE;
}

bool graph_is_wait(const graph_node *node)
{
    return strcmp(node->op_name, "_c10d_functional.wait_tensor.default") == 0;
}

void graph_find_needed(const spyre_graph *graph, bool *needed_nodes, uint32_t *uses)
{
    for (uint32_t i = 0; i < graph->outputs.count; i++) uses[graph->outputs.items[i]]++;
    for (uint32_t i = graph->nodes.count; i-- > 0;) {
        const graph_node *node = &graph->nodes.items[i];
        bool needed = graph_effect_of(node) >= EFFECT_EXCHANGE;
        for (uint32_t k = 0; k < node->result_count; k++) needed |= uses[node->results[k]] > 0;
        needed_nodes[i] = needed;
        for (uint32_t k = 0; needed && k < node->read_count; k++) uses[node->reads[k]]++;
    }
}
