// SPDX-License-Identifier: Apache-2.0
//
// Random graphs: the card in both modes agrees with the interpreter bit for bit, the interpreter
// with a plain evaluation up to rounding.
#include "unit/check.h"

#include "graph/verify.h"
#include "support/random_outputs.h"
#include "support/rounds.h"


// Runs one graph; false when the front says that it cannot.
static bool run_graph(uint64_t seed)
{
    static const uint32_t cores[] = {1, 2, 7, 32};
    random_graph *g = random_graph_begin(seed);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, random_sizes(g));
    uint32_t steps = 1 + random_below(g, 6);
    for (uint32_t i = 0; i < steps; i++) random_step(g);
    random_outputs out = {.count = 0};
    random_outputs_choose(g, &out);
    spyre_status status = out.count ? graph_verify(g->run.graph) : NULL;
    if (status) fail_msg("seed %llu: %s", (unsigned long long)seed, spyre_status_message(status));
    text listing = {0};
    uint32_t core_count = cores[random_below(g, 4)];
    for (front_engine e = 0; !status && out.count && e <= FRONT_RUN_CARD_FAST; e++) {
        random_outputs_room(g, &out, e);
        status = front_run_execute(&g->run, core_count, e, out.got[e], e ? NULL : &listing);
    }
    bool supported = !status;
    char problem[128];
    if (status) {
        if (spyre_status_code(status) != SPYRE_UNSUPPORTED || getenv("SPYRE_TEST_SEED")) {
            fputs(text_string(&listing), stderr);
            print_error("seed %llu: %s\n", (unsigned long long)seed, spyre_status_message(status));
        }
        assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
        spyre_status_free(status);
    } else if (random_outputs_differ(&out, FRONT_RUN_CARD_FAST + 1, problem)) {
        fputs(text_string(&listing), stderr);
        fail_msg("seed %llu: %s", (unsigned long long)seed, problem);
    }
    text_free(&listing);
    random_graph_end(g);
    return supported;
}

static void random_graphs__graphs(void **state)
{
    (void)state;
    uint32_t refused = 0, graphs = test_rounds(200);
    // One graph, with its loop IR when the front refuses it: SPYRE_TEST_SEED=17.
    const char *one = getenv("SPYRE_TEST_SEED");
    if (one) {
        run_graph(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= graphs; seed++) refused += !run_graph(seed);
    // Reshapes across unrelated factors and windows that overlap go to the host.
    assert_in_range(refused, 0, graphs / 6);
}

// 533: a condition over sticks and a rest, of which a row fusion takes rows of 64 floats that read
// the same 32 twice.
static void random_graphs__graphs_that_were_wrong(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {533};
    for (size_t n = 0; n < sizeof seeds / sizeof *seeds; n++) assert_true(run_graph(seeds[n]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs__graphs),
                                       cmocka_unit_test(random_graphs__graphs_that_were_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
