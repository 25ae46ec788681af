// SPDX-License-Identifier: Apache-2.0
//
// The input decides on a graph of natives and views, and on settings of the compiler. Whatever the
// front takes gives the same bits on the interpreter and on the card in both modes. Tensors are
// small and the card is kept, so that a run takes a millisecond; front_random has the large ones.
#define RANDOM_MOST_ELEMENTS 160

#include "fuzz/fuzz.h"
#include "graph/verify.h"
#include "support/random_outputs.h"

// Compiles once more, to tell what every pass has done.
_Noreturn static void fail(random_graph *g, uint32_t cores, const char *problem)
{
    text listing = {0};
    front_result result;
    spyre_status_free(front_run_compile(&g->run, cores, &listing, &result));
    fprintf(stderr, "%s%s\n", text_string(&listing), problem);
    abort();
}

static void choose_settings(random_graph *g)
{
    spyre_settings *settings = &g->run.settings;
    settings->lx_planning = !random_chance(g, 20);
    settings->work_division = random_chance(g, 20); // published
    if (random_chance(g, 20)) settings->max_span_bytes = 128u << random_below(g, 10);
}

static front_machine machine;

// The same bits from all engines, and numbers near the graph's own.
static void run_everywhere(random_graph *g)
{
    random_outputs out = {.count = 0};
    uint32_t cores = 1 + random_below(g, 32);
    if (cores > 8 && cores % 4) cores = 1 + cores % 8; // many cores take long
    front_result compiled;
    char problem[128];
    random_outputs_choose(g, &out);
    if (out.count == 0) return;
    fuzz_must(graph_verify(g->run.graph));
    g->run.machine = &machine;
    spyre_status status = front_run_compile(&g->run, cores, NULL, &compiled);
    if (spyre_status_code(status) == SPYRE_INTERNAL) fail(g, cores, spyre_status_message(status));
    if (!fuzz_ok(status)) return;
    for (front_engine e = 0; e <= FRONT_RUN_CARD_FAST; e++) {
        random_outputs_room(g, &out, e);
        status = front_run_launch(&g->run, &compiled, e, out.got[e]);
        if (e > 0 && status) fail(g, cores, spyre_status_message(status));
        if (!fuzz_ok(status)) return;
    }
    if (random_outputs_differ(&out, FRONT_RUN_CARD_FAST + 1, problem)) fail(g, cores, problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    random_graph *g = random_graph_begin_tape(bytes, count);
    choose_settings(g);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, random_sizes(g));
    for (uint32_t steps = 1 + random_below(g, 8); steps > 0; steps--) random_step(g);
    run_everywhere(g);
    front_machine_forget(&machine);
    random_graph_end(g);
    return 0;
}
