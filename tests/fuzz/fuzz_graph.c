// SPDX-License-Identifier: Apache-2.0
//
// Graph text: what parses prints, and what is printed parses to the same; small graphs compile and
// run on a card.
#include "fuzz/fuzz.h"
#include "graph/graph.h"
#include "support/journey.h"

enum { MOST_ELEMENTS = 1 << 14, MOST_NODES = 24 };

static bool is_small(const spyre_graph *graph)
{
    if (graph->nodes.count > MOST_NODES) return false;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        spyre_view view;
        double elements = 1;
        spyre_status status = graph_view_constant(graph, &graph->values.items[i].view, &view);
        if (!fuzz_ok(status)) return false;
        for (uint32_t d = 0; d < view.rank; d++) elements *= (double)view.size[d];
        if (elements > MOST_ELEMENTS) return false;
    }
    return true;
}

static void check_text(const spyre_graph *graph)
{
    char *once, *twice;
    spyre_graph *again;
    fuzz_must(spyre_graph_print(graph, &once));
    fuzz_must(spyre_graph_parse(once, "again", &again));
    fuzz_must(spyre_graph_print(again, &twice));
    FUZZ_HOLDS(strcmp(once, twice) == 0);
    spyre_graph_destroy(again);
    spyre_string_free(once);
    spyre_string_free(twice);
}

static void compile_and_run(const spyre_graph *graph, uint32_t cores)
{
    static spyre_context *context;
    if (!context) fuzz_must(spyre_context_create(1, &context));
    spyre_compile_options options = spyre_compile_options_default();
    spyre_executable *executable;
    options.settings.sencores = cores;
    if (!fuzz_ok(spyre_compile(graph, &options, &executable))) return;
    uint64_t hash = 0;
    fuzz_ok(journey_launch(context, executable, &hash));
    spyre_executable_destroy(executable);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create();
    spyre_graph *graph;
    if (fuzz_ok(spyre_graph_parse(fuzz_string(memory, bytes, count), "input", &graph))) {
        check_text(graph);
        if (is_small(graph)) compile_and_run(graph, (uint32_t)(1 + count % 32));
        spyre_graph_destroy(graph);
    }
    arena_destroy(memory);
    return 0;
}
