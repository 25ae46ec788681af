// SPDX-License-Identifier: Apache-2.0
//
// Random graphs with their intermediates in LX and in memory: the same bytes; what
// compiles without LX compiles with it.
#include "unit/check.h"

#include "graph/verify.h"
#include "support/random_op.h"
#include "support/rounds.h"

enum { MOST_OUTPUTS = 12, STEPS = 10 };

typedef struct {
    front_engine engine;
    uint32_t cores;
    bool lx, all_ops;
    bool clones; // and divisions planned together with LX
    uint32_t solver;
    double back_end; // share of LX
} variant;

typedef struct {
    uint32_t count;
    size_t bytes[MOST_OUTPUTS];
    void *wanted[MOST_OUTPUTS], *got[MOST_OUTPUTS];
} outputs;

static void choose_outputs(random_graph *g, outputs *out)
{
    for (uint32_t i = g->count; i-- > 0 && out->count < MOST_OUTPUTS;) {
        const random_value *value = &g->value[i];
        if (!value->computed || (out->count > 0 && !random_chance(g, 20))) continue;
        assert_ok(spyre_graph_add_output(g->run.graph, value->id));
        size_t element = value->dtype == SPYRE_DTYPE_F16 ? sizeof(uint16_t) : sizeof(float);
        out->bytes[out->count] = (size_t)value->count * element;
        out->wanted[out->count] = random_own(g, out->bytes[out->count]);
        out->got[out->count] = random_own(g, out->bytes[out->count]);
        out->count++;
    }
}

static spyre_status run_variant(random_graph *g, const variant *v, bool uneven, void **out)
{
    g->run.settings = spyre_settings_default();
    g->run.settings.lx_planning = v->lx;
    g->run.settings.tile_for_lx = false;    // sums along tiles are other sums
    g->run.settings.allow_all_ops_in_lx_planning = v->all_ops;
    g->run.settings.lx_boundary_clones = v->clones;
    g->run.settings.uneven_splits = uneven;
    g->run.settings.co_optimizing_lx_planning = v->clones;
    g->run.settings.layout_solver = v->solver;
    g->run.settings.dxp_lx_frac_avail = v->back_end;
    return front_run_execute(&g->run, v->cores, v->engine, out, NULL);
}

// Runs one graph in all variants; how many of its buffers were in LX.
static uint32_t run_graph(uint64_t seed)
{
    static const uint32_t cores[] = {1, 2, 7, 32};
    random_graph *g = random_graph_begin(seed);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, random_sizes(g));
    for (uint32_t i = 0; i < STEPS; i++) random_step(g);
    outputs out = {0};
    choose_outputs(g, &out);
    if (out.count) assert_null(graph_verify(g->run.graph));
    uint32_t core_count = cores[seed % 4], solver = (uint32_t)(seed / 4 % 4), in_lx = 0;
    const variant variants[] = {
        {FRONT_RUN_CARD_FAST, core_count, false, true, false, 0, 0.2},
        {FRONT_RUN_INTERPRETER, core_count, true, true, false, solver, 0.2},
        {FRONT_RUN_CARD_EXACT, core_count, true, true, false, solver, 0.2},
        {FRONT_RUN_CARD_FAST, core_count, true, true, false, solver, 0.2},
        {FRONT_RUN_CARD_FAST, core_count, true, true, false, solver, 0.999},
        {FRONT_RUN_CARD_FAST, core_count, true, false, false, solver, 0.2},
        {FRONT_RUN_CARD_EXACT, core_count, true, true, true, solver, 0.2},
        {FRONT_RUN_CARD_FAST, core_count, true, true, true, solver, 0.2},
    };
    spyre_status refused = out.count ? run_variant(g, &variants[0], false, out.wanted) : NULL;
    for (uint32_t n = 1; !refused && out.count && n < sizeof variants / sizeof *variants; n++) {
        spyre_status status = run_variant(g, &variants[n], seed % 2, out.got);
        if (status)
            fail_msg("seed %llu, variant %u: %s", (unsigned long long)seed, n,
                     spyre_status_message(status));
        for (uint32_t i = 0; i < out.count; i++)
            if (memcmp(out.got[i], out.wanted[i], out.bytes[i]) != 0)
                fail_msg("seed %llu, variant %u, output %u differs", (unsigned long long)seed, n,
                         i);
        if (n == 1) in_lx = g->run.in_lx;
    }
    spyre_status_free(refused);
    random_graph_end(g);
    return in_lx;
}

static void random_lx__same_bytes_as_in_memory(void **state)
{
    (void)state;
    uint32_t in_lx = 0, graphs = test_rounds(150);
    const char *one = getenv("SPYRE_TEST_SEED");
    for (uint64_t seed = 1; !one && seed <= graphs; seed++) in_lx += run_graph(seed);
    if (one)
        run_graph(strtoull(one, NULL, 10));
    else
        assert_true(in_lx > graphs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_lx__same_bytes_as_in_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
