// SPDX-License-Identifier: Apache-2.0
//
// Segments whose bundles keep within max_launch_arguments.
#include "unit/check.h"

#include <string.h>

#include "base/text.h"
#include "compile/executable.h"

static spyre_executable *compile(const char *source, uint32_t most)
{
    spyre_graph *graph;
    spyre_executable *executable;
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.max_launch_arguments = most;
    options.settings.lx_planning = false; // so that there is a pool
    assert_ok(spyre_graph_parse(source, "t", &graph));
    assert_ok(spyre_compile(graph, &options, &executable));
    spyre_graph_destroy(graph);
    return executable;
}

// The most launch arguments of a bundle; *out_cards is the number of bundles.
static uint32_t widest(const spyre_executable *executable, uint32_t *out_cards)
{
    uint32_t most = 0;
    *out_cards = 0;
    for (uint32_t s = 0; s < executable->segment_count; s++) {
        const executable_segment *segment = &executable->segments[s];
        if (segment->info.kind != SPYRE_SEGMENT_CARD) continue;
        uint32_t count = segment->front.bundle->args.count;
        if (count > most) most = count;
        ++*out_cards;
    }
    return most;
}

// A sum of 12 inputs, each of them scaled: constants, and intermediates.
static void launch_arguments__bundles_keep_within(void **state)
{
    (void)state;
    enum { INPUTS = 12 };
    text source = {0};
    for (uint32_t i = 0; i < INPUTS; i++) text_printf(&source, "input %%x%u: f16[4, 64]\n", i);
    text_append(&source, "%s0 = aten.mul.Tensor(%x0, 2.0) -> f16[4, 64]\n");
    for (uint32_t i = 1; i < INPUTS; i++) {
        text_printf(&source, "%%m%u = aten.mul.Tensor(%%x%u, 0.5) -> f16[4, 64]\n", i, i);
        text_printf(&source, "%%s%u = aten.add.Tensor(%%s%u, %%m%u) -> f16[4, 64]\n", i, i - 1, i);
    }
    text_printf(&source, "return %%s%u\n", INPUTS - 1);
    uint32_t cards, few;
    spyre_executable *executable = compile(text_string(&source), 0);
    assert_int_equal(widest(executable, &cards), INPUTS + 3); // a result, the pool, the constants
    assert_int_equal(cards, 1);
    spyre_executable_destroy(executable);
    executable = compile(text_string(&source), INPUTS + 3);
    assert_int_equal(widest(executable, &cards), INPUTS + 3);
    assert_int_equal(cards, 1);
    spyre_executable_destroy(executable);
    executable = compile(text_string(&source), 7);
    assert_int_equal(widest(executable, &few), 7);
    assert_int_equal(few, 4); // each with three more inputs
    spyre_executable_destroy(executable);
    executable = compile(text_string(&source), 5);
    assert_true(widest(executable, &cards) <= 5);
    assert_true(cards > few);
    spyre_executable_destroy(executable);
    text_free(&source);
}

// A node that takes more than that alone is the host's, the others are not.
static void launch_arguments__a_wide_node_goes_to_the_host(void **state)
{
    (void)state;
    const char *source = "input %a: f16[4, 64]\ninput %b: f16[4, 64]\ninput %c: f16[4, 64]\n"
                         "input %d: f16[4, 64]\n"
                         "%n = aten.neg.default(%a) -> f16[4, 64]\n"
                         "%k = aten.cat.default([%n, %b, %c, %d], 0) -> f16[16, 64]\n"
                         "%e = aten.exp.default(%k) -> f16[16, 64]\n"
                         "return %e\n";
    uint32_t cards;
    char *report;
    spyre_executable *executable = compile(source, 4);
    assert_true(widest(executable, &cards) <= 4);
    assert_int_equal(cards, 2);
    assert_ok(spyre_executable_report(executable, &report));
    assert_non_null(strstr(report, "node 1 aten.cat.default: host, segment 1: a bundle of 5 launch "
                                   "arguments where max_launch_arguments is 4"));
    spyre_string_free(report);
    spyre_executable_destroy(executable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_arguments__bundles_keep_within),
        cmocka_unit_test(launch_arguments__a_wide_node_goes_to_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
