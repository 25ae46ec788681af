// SPDX-License-Identifier: Apache-2.0
//
// A user's hints for a random graph that was made without them: names of dims by their size, scopes
// of tiles and divisions over its nodes.
#ifndef TESTS_RANDOM_HINTS_H
#define TESTS_RANDOM_HINTS_H

#include "support/random_op.h"

// `input` is the view of value 0.
static inline void random_hints(random_graph *g, const spyre_view *input)
{
    int64_t scopes = 0, size = 0, count = 0;
    char names[64] = "";
    for (uint32_t d = 0; d < input->rank; d++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%ss%lld", d ? "," : "",
                 (long long)input->size[d]);
    assert_ok(spyre_graph_name_dims(g->run.graph, g->value[0].id, names));
    for (uint32_t n = 0; n < g->run.graph->nodes.count; n++) {
        if (!count || random_chance(g, 25)) {
            static const int64_t counts[] = {2, 2, 3, 4, 5};
            size = input->size[random_below(g, input->rank)];
            count = counts[random_below(g, 5)];
            scopes++;
        }
        if (g->run.graph->nodes.items[n].layer == GRAPH_LAYER_VIEW || size % count) continue;
        char words[64];
        snprintf(words, sizeof words, "%lld:s%lld=%lld", (long long)scopes, (long long)size,
                 (long long)count);
        assert_ok(spyre_graph_set_tiles(g->run.graph, n, words));
    }
}

#endif
