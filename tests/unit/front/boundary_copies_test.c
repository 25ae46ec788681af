// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/cost/cost.h"
#include "support/front_case.h"
#include "support/random_op.h"

static front_run begin(void)
{
    front_run run = front_run_begin();
    run.settings.lx_boundary_clones = true;
    return run;
}

// exp(x) + x, then abs of it; `returns_sum`: the sum leaves the graph as well.
static void add_two_reads(front_run *run, spyre_view view, bool returns_sum)
{
    uint32_t x = front_case_input(run, view);
    uint32_t power = front_case_unary(run, "spyre.exp", x, view);
    uint32_t sum = front_case_binary(run, "spyre.add", power, x, view);
    front_case_output(run, front_case_unary(run, "spyre.abs", sum, view));
    if (returns_sum) front_case_output(run, sum);
}

static const loop_op *find_copy(const loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loops->ops.items[i].op == OPFUNC_IDENTITY) return &loops->ops.items[i];
    return NULL;
}

static void boundary_copies__input_read_twice_is_read_once(void **state)
{
    (void)state;
    front_run run = begin();
    add_two_reads(&run, sizes_view(2, 512, 512, 0), false);
    const loop_graph *loops = front_case_before(&run, 8, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), 1);
    const loop_op *copy = find_copy(loops);
    assert_int_equal(loop_core_count(copy), 8);
    assert_int_equal(loops->buffers.items[copy->operand[0].buffer].kind, LOOP_INPUT);
    assert_true(loops->buffers.items[copy->operand[1].buffer].in_lx);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; &loops->ops.items[i] != copy && k < 2; k++)
            assert_int_not_equal(loops->buffers.items[loops->ops.items[i].operand[k].buffer].kind,
                                 LOOP_INPUT);
    front_run_end(&run);
}

static void boundary_copies__output_read_again_leaves_as_a_copy(void **state)
{
    (void)state;
    front_run run = begin();
    add_two_reads(&run, sizes_view(2, 512, 512, 0), true);
    const loop_graph *loops = front_case_before(&run, 8, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), 2);
    uint32_t leaving = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (op->op != OPFUNC_IDENTITY) continue;
        const loop_buffer *from = &loops->buffers.items[op->operand[0].buffer];
        const loop_buffer *to = &loops->buffers.items[op->operand[1].buffer];
        if (to->output < 0) continue;
        assert_true(from->in_lx);
        assert_false(to->in_lx);
        leaving++;
    }
    assert_int_equal(leaving, 1);
    front_run_end(&run);
}

static void boundary_copies__none_without_room(void **state)
{
    (void)state;
    front_run run = begin();
    run.settings.dxp_lx_frac_avail = 0.99; // 20 KiB of LX are left
    run.settings.tile_for_lx = false;      // in which tiles of it would have room
    add_two_reads(&run, sizes_view(2, 512, 512, 0), true);
    const loop_graph *loops = front_case_before(&run, 8, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), 0);
    front_run_end(&run);
}

static void boundary_copies__none_where_readers_differ(void **state)
{
    (void)state;
    front_run run = begin();
    add_two_reads(&run, sizes_view(2, 512, 512, 0), false);
    loop_graph *loops = front_case_before(&run, 8, "lx_planning");
    bool changed;
    loops->ops.items[0].split[0] = 4; // of 8 before
    assert_ok(pass_lx_planning(loops, &changed));
    assert_null(find_copy(loops));
    front_run_end(&run);
}

static void boundary_copies__none_of_what_is_read_once_or_not_asked_for(void **state)
{
    (void)state;
    front_run run = begin();
    spyre_view view = sizes_view(2, 512, 512, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    assert_int_equal(front_case_count(front_case_before(&run, 8, NULL), OPFUNC_IDENTITY), 0);
    front_run_end(&run);
    run = begin();
    run.settings.lx_boundary_clones = false;
    add_two_reads(&run, view, true);
    assert_int_equal(front_case_count(front_case_before(&run, 8, NULL), OPFUNC_IDENTITY), 0);
    front_run_end(&run);
}

// What layer norm begins with; no setting is needed for that copy.
static void boundary_copies__distances_from_a_mean_are_of_one_read(void **state)
{
    (void)state;
    for (int of_another = 0; of_another < 2; of_another++) {
        front_run run = begin();
        run.settings.lx_boundary_clones = false;
        spyre_view view = sizes_view(2, 512, 512, 0), by_row = sizes_view(2, 512, 1, 0);
        uint32_t x = front_case_input(&run, view), y = front_case_input(&run, view);
        uint32_t mean = front_case_reduce(&run, "spyre.mean", x, 1, by_row);
        uint32_t distance = front_case_binary(&run, "spyre.sub", of_another ? y : x, mean, view);
        front_case_output(&run, distance);
        const loop_graph *loops = front_case_before(&run, 8, NULL);
        assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), !of_another);
        front_run_end(&run);
    }
}

// The planned loop IR's time by the front's model; copies may change divisions, too.
static void boundary_copies__no_graph_gets_slower(void **state)
{
    (void)state;
    uint32_t faster = 0;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        random_graph *g = random_graph_begin(seed);
        random_input(g, SPYRE_DTYPE_F16, random_sizes(g));
        for (uint32_t i = 0; i < 10; i++) random_step(g);
        for (uint32_t i = 0; i < g->count; i++)
            if (g->value[i].computed && random_chance(g, 30))
                front_case_output(&g->run, g->value[i].id);
        double us[2];
        bool compiles = true;
        for (int clones = 0; clones < 2 && compiles; clones++) {
            front_options options = {.settings = spyre_settings_default()};
            front_result result;
            uint32_t node;
            options.settings.lx_boundary_clones = clones;
            spyre_status status =
                front_compile(g->run.graph, &options, g->run.memory, &node, &result);
            compiles = !status;
            if (compiles) us[clones] = cost_of_graph(result.loops);
            spyre_status_free(status);
        }
        if (compiles) assert_true(us[1] <= us[0] * (1 + 1e-9));
        faster += compiles && us[1] < us[0] * 0.99;
        random_graph_end(g);
    }
    assert_true(faster > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundary_copies__input_read_twice_is_read_once),
        cmocka_unit_test(boundary_copies__output_read_again_leaves_as_a_copy),
        cmocka_unit_test(boundary_copies__none_without_room),
        cmocka_unit_test(boundary_copies__none_where_readers_differ),
        cmocka_unit_test(boundary_copies__distances_from_a_mean_are_of_one_read),
        cmocka_unit_test(boundary_copies__no_graph_gets_slower),
        cmocka_unit_test(boundary_copies__none_of_what_is_read_once_or_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
