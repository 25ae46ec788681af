// SPDX-License-Identifier: Apache-2.0
//
// What front or back refuse goes to the host: few turns, the right nodes, the reason.
#include "unit/check.h"

#include <string.h>

#include "base/text.h"
#include "compile/statistics.h"
#include "spyre/compile.h"

static int64_t attempts(void)
{
    spyre_statistic row;
    assert_true(spyre_statistic_at(STATISTIC_ATTEMPTS, &row));
    return row.value;
}

static uint32_t host_nodes(const spyre_executable *executable)
{
    char *report;
    uint32_t count = 0;
    assert_ok(spyre_executable_report(executable, &report));
    for (const char *at = report; (at = strstr(at, ": host, ")); at++) count++;
    spyre_string_free(report);
    return count;
}

static spyre_executable *compile(const char *source, const spyre_compile_options *options)
{
    spyre_graph *graph;
    spyre_executable *executable;
    assert_ok(spyre_graph_parse(source, "layers", &graph));
    assert_ok(spyre_compile(graph, options, &executable));
    spyre_graph_destroy(graph);
    return executable;
}

// LX of three sticks a core holds an operand and a result, not two operands.
static spyre_compile_options options_with_three_sticks(void)
{
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.dxp_lx_frac_avail = 0.0003;
    return options;
}

// So many layers with a relu, a sum and a product of two inputs.
static text layers(uint32_t count)
{
    text out = {0}, results = {0};
    text_append(&out, "input %y: f16[4, 130]\n");
    for (uint32_t i = 0; i < count; i++) text_printf(&out, "input %%x%u: f16[4, 130]\n", i);
    for (uint32_t i = 0; i < count; i++) {
        text_printf(&out, "%%a%u = aten.relu.default(%%x%u) -> f16[4, 130]\n", i, i);
        text_printf(&out, "%%s%u = aten.add.Tensor(%%x%u, %%y) -> f16[4, 130]\n", i, i);
        text_printf(&out, "%%p%u = aten.mul.Tensor(%%x%u, %%y) -> f16[4, 130]\n", i, i);
        text_printf(&results, "%s%%a%u, %%s%u, %%p%u", i ? ", " : "", i, i, i);
    }
    text_printf(&out, "return %s\n", text_string(&results));
    text_free(&results);
    return out;
}

static void operation_refusals__equal_layers_take_few_turns(void **state)
{
    (void)state;
    enum { LAYERS = 24 };
    text source = layers(LAYERS);
    int64_t before = attempts();
    spyre_compile_options options = options_with_three_sticks();
    spyre_executable *executable = compile(text_string(&source), &options);
    // Two turns for each kind, one node and then all the others; the last turn succeeds.
    assert_int_equal(attempts() - before, 2 * 2 + 1);
    assert_int_equal(host_nodes(executable), 2 * LAYERS);
    spyre_executable_destroy(executable);
    text_free(&source);
}

static void operation_refusals__one_place_costs_no_other(void **state)
{
    (void)state;
    const char *source = "input %x: f16[4, 130]\n"
                         "input %y: f16[4, 130]\n"
                         "%a = aten.relu.default(%x) -> f16[4, 130]\n"
                         "%n = aten.add.Tensor(%x, %y) -> f16[4, 130]\n"
                         "%m = aten.neg.default(%y) -> f16[4, 130]\n"
                         "return %a, %n, %m\n";
    spyre_compile_options options = options_with_three_sticks();
    spyre_executable *executable = compile(source, &options);
    assert_int_equal(host_nodes(executable), 1);
    spyre_executable_destroy(executable);
}

static void operation_refusals__of_the_back_end_name_their_node(void **state)
{
    (void)state;
    const char *source = "input %x: f16[64, 512]\n"
                         "%s = aten.relu.default(%x) -> f16[64, 512] @ \"m.py:1\"\n"
                         "return %s\n";
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.dxp_lx_frac_avail = 0;
    spyre_executable *executable = compile(source, &options);
    char *report;
    assert_ok(spyre_executable_report(executable, &report));
    assert_int_equal(host_nodes(executable), 1);
    assert_non_null(strstr(report, "aten.relu.default (m.py:1): host, segment 0: step 0 0_relufwd: "
                                   "the smallest tile needs"));
    spyre_string_free(report);
    spyre_executable_destroy(executable);

    options.host_fallback = false;
    spyre_graph *graph;
    assert_ok(spyre_graph_parse(source, "relu", &graph));
    assert_error(spyre_compile(graph, &options, &executable), SPYRE_UNSUPPORTED,
                 "segment 0: step 0 0_relufwd: the smallest tile needs");
    spyre_graph_destroy(graph);
}

// Three intermediates of 10 GiB live at once; the pool holds one of them.
static void operation_refusals__of_a_full_pool_name_the_largest_intermediate(void **state)
{
    (void)state;
    const char *source = "input %x: f16[65536, 81920]\n"
                         "%e = aten.exp.default(%x) -> f16[65536, 81920] @ \"m.py:1\"\n"
                         "%n = aten.neg.default(%x) -> f16[65536, 81920] @ \"m.py:2\"\n"
                         "%t = aten.tanh.default(%x) -> f16[65536, 81920] @ \"m.py:3\"\n"
                         "%u = aten.add.Tensor(%e, %n) -> f16[65536, 81920] @ \"m.py:4\"\n"
                         "%s = aten.sum.dim_IntList(%u, [0], true) -> f16[1, 81920]\n"
                         "%v = aten.mul.Tensor(%t, %s) -> f16[65536, 81920]\n"
                         "return %v\n";
    spyre_compile_options options = spyre_compile_options_default();
    options.settings.lx_planning = false;
    spyre_executable *executable = compile(source, &options);
    char *report;
    assert_ok(spyre_executable_report(executable, &report));
    assert_int_equal(host_nodes(executable), 2);
    assert_non_null(strstr(report, "aten.exp.default (m.py:1): host, segment 0: intermediates of "
                                   "32212336640 bytes, the largest 10737418240, do not fit the "
                                   "pool: a segment of memory holds 17179869184"));
    spyre_string_free(report);
    spyre_executable_destroy(executable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operation_refusals__equal_layers_take_few_turns),
        cmocka_unit_test(operation_refusals__one_place_costs_no_other),
        cmocka_unit_test(operation_refusals__of_the_back_end_name_their_node),
        cmocka_unit_test(operation_refusals__of_a_full_pool_name_the_largest_intermediate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
