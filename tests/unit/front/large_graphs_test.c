// SPDX-License-Identifier: Apache-2.0
//
// Graphs of 20,000 ops. A pass that looks at pairs of ops would make 400 million steps a sweep and
// meet the processor time limit, which is some fifty times what the front needs.
#include "unit/check.h"

#include <sys/resource.h>

#include "graph/segments/segments.h"
#include "support/front_case.h"
#include "support/rounds.h"

enum { MOST_SECONDS = 20 };

#define OPS test_rounds(20000)

static void limit_processor_time(void)
{
    struct rusage used;
    struct rlimit limit;
    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    assert_int_equal(getrlimit(RLIMIT_CPU, &limit), 0);
    limit.rlim_cur = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec + MOST_SECONDS;
    assert_int_equal(setrlimit(RLIMIT_CPU, &limit), 0);
}

static void compile(front_run *run, uint32_t steps)
{
    front_options options = {.settings = spyre_settings_default()};
    front_result result;
    uint32_t node;
    limit_processor_time();
    spyre_status status = front_compile(run->graph, &options, run->memory, &node, &result);
    if (status) print_error("%s\n", spyre_status_message(status));
    assert_null(status);
    uint32_t found = 0; // without the moves between cores
    for (uint32_t s = 0; s < result.bundle->steps.count; s++)
        found += result.bundle->steps.items[s].op != OPFUNC_SHUFFLE;
    assert_int_equal(found, steps);
    front_run_end(run);
}

static void large_graphs__a_chain(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 8, 128, 0);
    uint32_t x = front_case_input(&run, view);
    for (uint32_t i = 0; i < OPS; i++) x = front_case_unary(&run, "spyre.neg", x, view);
    front_case_output(&run, x);
    compile(&run, OPS);
}

// One value that every op reads.
static void large_graphs__a_fan(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 8, 128, 0);
    uint32_t hub = front_case_unary(&run, "spyre.exp", front_case_input(&run, view), view), x = hub;
    for (uint32_t i = 0; i < OPS; i++) x = front_case_binary(&run, "spyre.maximum", x, hub, view);
    front_case_output(&run, x);
    compile(&run, OPS + 1);
}

// Many small parts that share an input only.
static void large_graphs__many_parts(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 8, 128, 0);
    uint32_t x = front_case_input(&run, view), pieces[2];
    for (uint32_t i = 0; i < OPS / 4; i++) {
        uint32_t own = front_case_constant(&run, i + 1); // equal parts would be merged
        pieces[0] = front_case_binary(&run, "spyre.mul", x, own, view);
        pieces[1] = front_case_binary(&run, "spyre.sub", x, own, view);
        uint32_t sum = front_case_binary(&run, "spyre.add", pieces[0], pieces[1], view);
        uint32_t last = front_case_unary(&run, "spyre.abs", sum, view);
        if (i % 100 == 0) front_case_output(&run, last);
    }
    compile(&run, OPS / 100);
}

// A view of a view of a view, each of them read.
static void large_graphs__views_of_views(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    graph_segment *segments;
    uint32_t count;
    spyre_view view = sizes_view(2, 64, 64, 0), turned = {.rank = 2, .size = {64, 64}};
    turned.stride[0] = 1;
    turned.stride[1] = 64;
    uint32_t x = front_case_input(&run, view), sum = x;
    for (uint32_t i = 0; i < OPS; i++) {
        x = front_run_view(&run, x, SPYRE_DTYPE_F16, i % 2 ? view : turned);
        sum = front_case_binary(&run, "spyre.add", sum, x, view);
    }
    front_case_output(&run, sum);
    limit_processor_time();
    assert_ok(graph_make_segments(run.graph, true, 0, run.memory, &segments, &count));
    assert_int_equal(count, 1);
    compile(&run, OPS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_graphs__a_chain),
        cmocka_unit_test(large_graphs__a_fan),
        cmocka_unit_test(large_graphs__many_parts),
        cmocka_unit_test(large_graphs__views_of_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
