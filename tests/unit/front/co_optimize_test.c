// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/cost/cost.h"
#include "front/ir/core_numbers.h"
#include "support/front_case.h"

typedef struct {
    int64_t rows, columns;
    uint32_t products;
} layers;

// abs(x @ w1), a product with w2, exp of it: rows are few, so that columns of the products compete
// with the rows that the others agree on.
static void add_layers(front_run *run, const layers *l)
{
    spyre_view x = sizes_view(2, l->rows, l->columns, 0);
    spyre_view w = sizes_view(2, l->columns, l->columns, 0);
    uint32_t value = front_case_input(run, x);
    for (uint32_t i = 0; i < l->products; i++) {
        value = front_case_unary(run, "spyre.abs", value, x);
        value = front_case_binary(run, "spyre.batchmatmul", value, front_case_input(run, w), x);
        value = front_case_unary(run, "spyre.exp", value, x);
        value = front_case_binary(run, "spyre.add", value, value, x);
    }
    front_case_output(run, value);
}

static double planned_us(front_run *run, bool together)
{
    run->settings.co_optimizing_lx_planning = together;
    run->settings.tile_for_lx = false;
    return cost_of_graph(front_case_before(run, 32, NULL));
}

static void co_optimize__never_slower_and_sometimes_faster(void **state)
{
    (void)state;
    static const layers cases[] = {{512, 4096, 2}, {2048, 8192, 4}};
    for (uint32_t n = 0; n < 2; n++) {
        front_run run = front_run_begin();
        add_layers(&run, &cases[n]);
        double alone = planned_us(&run, false), together = planned_us(&run, true);
        assert_true(n ? together < alone : together <= alone);
        front_run_end(&run);
    }
}

// Two ops that were left with divisions that do not agree.
static void co_optimize__a_mismatch_becomes_resident(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_case_pair(&run, "spyre.tanh", "spyre.abs", sizes_view(2, 512, 2048, 0));
    run.settings.co_optimizing_lx_planning = true;
    loop_graph *loops = front_case_before(&run, 32, "co_optimize");
    division rows = division_whole(), columns = division_whole();
    rows.split[0] = columns.split[1] = 32;
    core_numbers_as_published(&loops->ops.items[0], &rows);
    core_numbers_as_published(&loops->ops.items[1], &columns);
    division_set(&loops->ops.items[0], &rows, LOOP_DIVIDED_BY_DISTRIBUTION);
    division_set(&loops->ops.items[1], &columns, LOOP_DIVIDED_BY_DISTRIBUTION);
    bool changed;
    assert_ok(pass_co_optimize(loops, &changed));
    assert_true(changed);
    assert_ok(pass_lx_planning(loops, &changed));
    const loop_op *writer = &loops->ops.items[0];
    assert_true(loops->buffers.items[writer->operand[1].buffer].in_lx);
    front_run_end(&run);
}

// Batches and columns, as published, although rows keep the PT full.
static void co_optimize__published_divisions_are_improved(void **state)
{
    (void)state;
    double us[3];
    for (int n = 0; n < 3; n++) { // published; the same, optimised; joint work division
        front_run run = front_run_begin();
        spyre_view a = sizes_view(3, 8, 256, 128), b = sizes_view(3, 8, 128, 256);
        uint32_t x = front_case_input(&run, a), y = front_case_input(&run, b);
        front_case_output(
            &run, front_case_binary(&run, "spyre.batchmatmul", x, y, sizes_view(3, 8, 256, 256)));
        run.settings.work_division = n < 2;
        us[n] = planned_us(&run, n == 1);
        front_run_end(&run);
    }
    assert_true(us[1] < us[0] * 0.8);
    assert_true(us[1] <= us[2] * (1 + 1e-9));
}

static void co_optimize__hints_stay(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    add_layers(&run, &(layers){512, 4096, 2});
    run.settings.co_optimizing_lx_planning = true;
    loop_graph *loops = front_case_before(&run, 32, "co_optimize");
    bool changed;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        division whole = division_whole();
        division_set(&loops->ops.items[i], &whole, LOOP_DIVIDED_BY_HINT);
    }
    assert_ok(pass_co_optimize(loops, &changed));
    assert_false(changed);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        assert_int_equal(loop_core_count(&loops->ops.items[i]), 1);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(co_optimize__never_slower_and_sometimes_faster),
        cmocka_unit_test(co_optimize__a_mismatch_becomes_resident),
        cmocka_unit_test(co_optimize__published_divisions_are_improved),
        cmocka_unit_test(co_optimize__hints_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
