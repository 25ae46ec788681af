// SPDX-License-Identifier: Apache-2.0
//
// Loops whose last slice is shorter (SPYRE_UNEVEN_SPLITS).
#include "unit/check.h"

#include "bundle/step_facts.h"
#include "front/cost/cost.h"
#include "support/front_case.h"

static void uneven_splits__counts(void **state)
{
    (void)state;
    static const struct {
        int64_t units, slices;
        bool even, uneven;
    } cases[] = {
        {7, 7, true, true},     {7, 4, false, true},  {7, 5, false, false}, {7, 8, false, false},
        {7, 1, true, true},     {7, 0, false, false}, {8, 3, false, true},  {100, 25, true, true},
        {100, 26, false, false}, {101, 26, false, true},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(division_cuts(cases[i].units, cases[i].slices, false), cases[i].even);
        assert_int_equal(division_cuts(cases[i].units, cases[i].slices, true), cases[i].uneven);
    }
    assert_int_equal(division_largest(101, 32, true), 26);
    assert_int_equal(division_largest(101, 32, false), 1);
    assert_int_equal(division_largest(7, 6, true), 4);
    assert_int_equal(division_nearest(101, 30, true), 26);
    assert_int_equal(division_nearest(101, 33, true), 34);
    assert_int_equal(division_nearest(101, 30, false), 1);
    assert_int_equal(division_nearest(7, 100, true), 7);
}

static front_run begin(bool uneven)
{
    front_run run = front_run_begin();
    run.settings.uneven_splits = uneven;
    return run;
}

// The cores' slices of a dim follow one another, from its start to its end.
static void check_cover(const bundle_step *step, uint32_t d)
{
    int64_t seen = 0;
    for (int32_t slice = 0; slice < step->cores->slices[d]; slice++)
        for (uint32_t core = 0; core < step->cores->core_count; core++) {
            if (step->cores->core_slice[core][d] != slice) continue;
            assert_int_equal(bundle_slice_start(step, core, d), seen);
            seen += bundle_slice_size(step, core, d);
            break;
        }
    assert_int_equal(seen, step->size[d]);
}

// exp of [101, 448]: 26 cores have four rows and the last one; on four cores there are 2, 2, 2 and
// 1 of the sticks of [5, 448].
static void check_exp(int64_t rows, uint32_t cores, bool uneven, uint32_t used, int64_t longest)
{
    front_run run = begin(uneven);
    spyre_view view = sizes_view(2, rows, 448, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    front_options options = {.settings = run.settings};
    options.settings.sencores = cores;
    front_result result;
    uint32_t node;
    assert_ok(front_compile(run.graph, &options, run.memory, &node, &result));
    const bundle_step *step = &result.bundle->steps.items[0];
    assert_int_equal(step->cores->core_count, used);
    int64_t most = 0;
    for (uint32_t d = 0; d < step->dim_count; d++) {
        check_cover(step, d);
        if (step->cores->slice_size[d] > most) most = step->cores->slice_size[d];
    }
    assert_int_equal(most, longest);
    front_run_end(&run);
}

static void uneven_splits__slices_cover_a_dim(void **state)
{
    (void)state;
    check_exp(101, 6, true, 6, 17);
    check_exp(101, 6, false, 1, 0);
    check_exp(1, 4, true, 4, 128);
}

// A core's place in LX has room for the longest slice: 26 rows of 7 sticks.
static void uneven_splits__stay_in_lx(void **state)
{
    (void)state;
    front_run run = begin(true);
    spyre_view view = sizes_view(2, 101, 448, 0);
    uint32_t x = front_case_unary(&run, "spyre.exp", front_case_input(&run, view), view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
    loop_graph *loops = front_case_before(&run, 4, NULL);
    const loop_buffer *kept = &loops->buffers.items[loops->ops.items[0].operand[1].buffer];
    assert_true(kept->in_lx);
    assert_int_equal(loop_core_count(&loops->ops.items[0]), 4);
    assert_int_equal(loops->ops.items[0].split[0], 4);
    assert_int_equal(kept->bytes, 26 * 7 * 128);
    front_run_end(&run);
}

static uint8_t var_of(const loop_op *op, int64_t extent)
{
    for (uint8_t v = 0; v < op->var_count; v++)
        if (op->extent[v] == extent) return v;
    return LOOP_NO_DIM;
}

// 509 rows on four cores: all do the 125 that the last one has, then three of them three more.
static void uneven_splits__cost_is_that_of_the_pieces(void **state)
{
    (void)state;
    double us[3], compute[3];
    static const int64_t rows[] = {509, 4 * 125, 3 * 3};
    static const int32_t slices[] = {4, 4, 3};
    for (uint32_t i = 0; i < 3; i++) {
        front_run run = begin(true);
        uint32_t x = front_case_input(&run, sizes_view(2, rows[i], 1024, 0));
        uint32_t y = front_case_input(&run, sizes_view(2, 1024, 448, 0));
        front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y,
                                                  sizes_view(2, rows[i], 448, 0)));
        loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
        const loop_op *op = &loops->ops.items[0];
        cost_basis basis = cost_basis_of(loops, op);
        division d = division_whole();
        d.split[var_of(op, rows[i])] = slices[i];
        d.split[var_of(op, 448)] = 7;
        cost c = cost_of(op, &basis, &d, 0);
        us[i] = c.us;
        compute[i] = c.compute_us;
        front_run_end(&run);
    }
    assert_true(us[0] > (us[1] + us[2]) * (1 - 1e-12) && us[0] < (us[1] + us[2]) * (1 + 1e-12));
    assert_true(compute[0] > (compute[1] + compute[2]) * (1 - 1e-12));
}

// A prime number of rows leaves seven cores for the columns without uneven slices.
static void uneven_splits__are_chosen_where_they_save_time(void **state)
{
    (void)state;
    double us[2];
    for (int uneven = 0; uneven < 2; uneven++) {
        front_run run = begin(uneven);
        uint32_t x = front_case_input(&run, sizes_view(2, 509, 1024, 0));
        uint32_t y = front_case_input(&run, sizes_view(2, 1024, 448, 0));
        front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y,
                                                  sizes_view(2, 509, 448, 0)));
        loop_graph *loops = front_case_before(&run, 32, NULL);
        us[uneven] = cost_of_graph(loops);
        assert_int_equal(loop_core_count(&loops->ops.items[0]), uneven ? 28 : 7);
        front_run_end(&run);
    }
    assert_true(us[1] < 0.85 * us[0]);
}

// The product of [64, 448] and [448, 192], hinted.
static spyre_status hint(const char *splits, bool uneven, front_run *run)
{
    *run = begin(uneven);
    uint32_t x = front_case_input(run, sizes_view(2, 64, 448, 0));
    uint32_t y = front_case_input(run, sizes_view(2, 448, 192, 0));
    assert_ok(spyre_graph_name_dims(run->graph, x, "M,K"));
    assert_ok(spyre_graph_name_dims(run->graph, y, "K,N"));
    front_case_output(run, front_case_binary(run, "spyre.batchmatmul", x, y,
                                             sizes_view(2, 64, 192, 0)));
    assert_ok(spyre_graph_set_work_division(run->graph, 0, splits));
    bool changed;
    loop_graph *loops = front_case_before(run, 32, "hinted_divisions");
    return pass_hinted_divisions(loops, &changed);
}

static void check_hint(const char *splits, bool uneven, const char *refusal)
{
    front_run run;
    spyre_status status = hint(splits, uneven, &run);
    if (!refusal) {
        assert_null(status);
    } else {
        assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
        if (!strstr(spyre_status_message(status), refusal))
            fail_msg("%s", spyre_status_message(status));
        spyre_status_free(status);
    }
    front_run_end(&run);
}

static void uneven_splits__hints(void **state)
{
    (void)state;
    check_hint("N=2", true, NULL);
    check_hint("N=2", false, "work_div N=2: does not divide the dim of 3 units (sticks along a "
                             "stick); the nearest count is 1");
    check_hint("M=5", true, NULL);
    check_hint("M=50", true, "work_div M=50: does not divide the dim of 64 units (sticks along a "
                             "stick); the nearest count is 64");
    check_hint("N=2,K=7", true, "work_div N=2: uneven slices of 3 units beside slices of a reduced "
                                "dim; the nearest even count is 1");
    check_hint("K=4", true, "work_div K=4: does not divide the dim of 7 units (sticks along a "
                            "stick); the nearest count is 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_splits__counts),
        cmocka_unit_test(uneven_splits__slices_cover_a_dim),
        cmocka_unit_test(uneven_splits__stay_in_lx),
        cmocka_unit_test(uneven_splits__cost_is_that_of_the_pieces),
        cmocka_unit_test(uneven_splits__are_chosen_where_they_save_time),
        cmocka_unit_test(uneven_splits__hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
