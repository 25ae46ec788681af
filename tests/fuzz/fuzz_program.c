// SPDX-License-Identifier: Apache-2.0
//
// The input decides on a graph of natives and views, and on settings of the compiler. Whatever the
// front takes gives the same bits on the interpreter and on the card in both modes.
#include "fuzz/fuzz.h"
#include "graph/verify.h"
#include "support/random_outputs.h"

_Noreturn static void fail(const text *listing, const char *problem)
{
    fprintf(stderr, "%s%s\n", text_string(listing), problem);
    abort();
}

static void choose_settings(random_graph *g)
{
    spyre_settings *settings = &g->run.settings;
    settings->lx_planning = !random_chance(g, 20);
    settings->work_division = random_chance(g, 20); // published
    if (random_chance(g, 20)) settings->max_span_bytes = 128u << random_below(g, 10);
}

// The same bits from all engines, and numbers near the graph's own.
static void run_everywhere(random_graph *g, text *listing)
{
    random_outputs out = {.count = 0};
    uint32_t cores = 1 + random_below(g, 32);
    char problem[128];
    random_outputs_choose(g, &out);
    if (out.count == 0) return;
    fuzz_must(graph_verify(g->run.graph));
    for (front_engine e = 0; e <= FRONT_RUN_CARD_FAST; e++) {
        random_outputs_room(g, &out, e);
        spyre_status status =
            front_run_execute(&g->run, cores, e, out.got[e], e ? NULL : listing);
        if (e > 0 && status) fail(listing, spyre_status_message(status));
        if (!fuzz_ok(status)) return;
    }
    if (random_outputs_differ(&out, FRONT_RUN_CARD_FAST + 1, problem)) fail(listing, problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    random_graph *g = random_graph_begin_tape(bytes, count);
    text listing = {0};
    choose_settings(g);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, random_sizes(g));
    for (uint32_t steps = 1 + random_below(g, 8); steps > 0; steps--) random_step(g);
    run_everywhere(g, &listing);
    text_free(&listing);
    random_graph_end(g);
    return 0;
}
