// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// The division of x + x for x of [rows, columns], as "rows columns".
static void check(int64_t rows, int64_t columns, uint32_t cores, int32_t by_row, int32_t by_column)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, rows, columns, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_binary(&run, "spyre.add", x, x, view));
    loop_graph *loops = front_case_before(&run, cores, "work_distribution");
    bool changed;
    assert_ok(pass_work_distribution(loops, &changed));
    const loop_op *op = &loops->ops.items[0];
    assert_int_equal(op->var_count, 2);
    assert_int_equal(op->split[0], by_row);
    assert_int_equal(op->split[1], by_column);
    assert_int_equal(changed, by_row * by_column > 1);
    front_run_end(&run);
}

// Columns count in sticks of 64; the larger dim goes first and takes its largest divisor.
static void work_distribution__largest_divisors(void **state)
{
    (void)state;
    check(64, 128, 32, 32, 1);
    check(12, 1024, 32, 2, 16);
    check(7, 64, 32, 7, 1);
    check(37, 128, 32, 1, 2);
    check(6, 640, 8, 1, 5);
    check(50, 200, 1, 1, 1);
}

static void work_distribution__reduced_loops_stay_whole(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 64, 4096, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 4096, 128, 0));
    front_case_output(
        &run, front_case_binary(&run, "spyre.batchmatmul", x, y, sizes_view(2, 64, 128, 0)));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    const loop_op *op = &loops->ops.items[0];
    for (uint32_t v = 0; v < op->var_count; v++)
        if (loop_var_is_reduced(op, v)) assert_int_equal(op->split[v], 1);
    front_run_end(&run);
}

// Unless the published division is asked for, a reduced loop is cut only where its slices combine
// exactly: max of rows, not sums, not max along the stick.
static void work_distribution__exact_combinations_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int64_t dim;
        int32_t split[2]; // by default, published
    } cases[] = {{"spyre.max", 0, {16, 16}},
                 {"spyre.min", 0, {16, 16}},
                 {"spyre.sum", 0, {1, 16}},
                 {"spyre.max", 1, {1, 1}},
                 {"spyre.mean", 0, {1, 16}}};
    for (uint32_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        front_run run = front_run_begin();
        int64_t kept = cases[i / 2].dim ? 64 : 128;
        uint32_t x = front_case_input(&run, sizes_view(2, 64, 128, 0));
        spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = cases[i / 2].dim};
        spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                            {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}}};
        front_case_output(&run, front_run_node(&run, cases[i / 2].op, args, 2, SPYRE_DTYPE_F16,
                                               sizes_view(1, kept, 0, 0)));
        loop_graph *loops = front_case_before(&run, 32, "work_distribution");
        bool changed;
        loops->settings.work_division = i % 2;
        assert_ok(pass_work_distribution(loops, &changed));
        assert_ok(loop_verify(loops));
        const loop_op *op = &loops->ops.items[0];
        for (uint32_t v = 0; v < op->var_count; v++)
            if (loop_var_is_reduced(op, v))
                assert_int_equal(op->split[v], cases[i / 2].split[i % 2]);
        front_run_end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_distribution__largest_divisors),
        cmocka_unit_test(work_distribution__reduced_loops_stay_whole),
        cmocka_unit_test(work_distribution__exact_combinations_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
