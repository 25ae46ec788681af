// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/explain/alternatives.h"
#include "support/front_case.h"

static alternatives find(const loop_graph *loops, uint32_t op, double least_us)
{
    alternatives found;
    def_use f;
    assert_ok(def_use_build(loops, &f));
    assert_ok(alternatives_find(loops, &f, op, least_us, loops->memory, &found));
    for (uint32_t i = 0; i < found.count; i++) assert_true(found.best[i].saved_us > least_us);
    for (uint32_t i = 1; i < found.count; i++)
        assert_true(found.best[i - 1].saved_us >= found.best[i].saved_us);
    return found;
}

static void assert_near(double got, double want)
{
    if (!(got > want * (1 - 1e-9) && got < want * (1 + 1e-9))) {
        print_error("%.12g, not %.12g\n", got, want);
        fail();
    }
}

static const alternative *named(const alternatives *list, const char *part)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strstr(list->best[i].change, part)) return &list->best[i];
    return NULL;
}

static double cost_at(const loop_graph *loops, uint32_t index, uint32_t resident)
{
    const loop_op *op = &loops->ops.items[index];
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_get(op);
    return cost_of(op, &basis, &d, resident).us;
}

static loop_graph *chain(front_run *run, const char *lx_planning)
{
    spyre_view view = sizes_view(2, 1024, 2048, 0);
    uint32_t x = front_case_unary(run, "spyre.neg", front_case_input(run, view), view);
    front_case_output(run, front_case_unary(run, "spyre.exp", x, view));
    assert_ok(spyre_settings_set(&run->settings, "lx_planning", lx_planning));
    return front_case_before(run, 32, NULL);
}

// Writer and reader save: an access each.
static void alternatives__a_buffer_in_lx(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = chain(&run, "0");
    alternatives writer = find(loops, 0, 0), reader = find(loops, 1, 0);
    double saved = cost_at(loops, 0, 0) - cost_at(loops, 0, 2) + cost_at(loops, 1, 0) -
                   cost_at(loops, 1, 1);
    assert_non_null(named(&writer, "stayed in LX"));
    assert_near(named(&writer, "stayed in LX")->saved_us, saved);
    assert_near(named(&reader, "stayed in LX")->saved_us, saved);
    assert_int_equal(find(loops, 0, saved * 1.001).count, 0);
    front_run_end(&run);
}

// Slices of 128 KiB: with all of LX, with 123 KiB of it, and with room for one of two.
static void alternatives__room_in_lx(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    alternatives found = find(chain(&run, "0"), 0, 0);
    assert_non_null(named(&found, "stayed in LX (there is room)"));
    front_run_end(&run);
    run = front_run_begin();
    run.settings.dxp_lx_frac_avail = 0.94;
    run.settings.tile_for_lx = false;
    found = find(chain(&run, "1"), 0, 0);
    assert_non_null(named(&found, "stayed in LX (in memory: a core's slice is larger than LX)"));
    front_run_end(&run);
    run = front_run_begin();
    run.settings.dxp_lx_frac_avail = 0.92;
    run.settings.tile_for_lx = false;
    spyre_view view = sizes_view(2, 1024, 2048, 0);
    uint32_t x = front_case_unary(&run, "spyre.neg", front_case_input(&run, view), view);
    uint32_t y = front_case_unary(&run, "spyre.exp", x, view);
    front_case_output(&run, front_case_binary(&run, "spyre.add", x, y, view));
    const loop_graph *loops = front_case_before(&run, 32, NULL);
    found = find(loops, 1, 0);
    assert_non_null(named(&found, "(in memory: LX is full; for that %"));
    assert_non_null(named(&found, " has to leave)"));
    front_run_end(&run);
}

static void alternatives__nothing_to_gain(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = chain(&run, "1");
    assert_true(loops->buffers.items[loops->ops.items[1].operand[0].buffer].in_lx);
    assert_int_equal(find(loops, 0, 0).count, 0);
    assert_int_equal(find(loops, 1, 0).count, 0);
    front_run_end(&run);
}

// A reader that was divided otherwise keeps the buffer in memory: to divide it as before saves what
// the plan had saved, and leaves the graph as it was.
static void alternatives__a_division_that_agrees(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = chain(&run, "1");
    double planned = cost_as_planned(loops, &loops->ops.items[0]).us +
                     cost_as_planned(loops, &loops->ops.items[1]).us;
    division other = division_whole();
    bool changed;
    loop_buffer *shared = &loops->buffers.items[loops->ops.items[1].operand[0].buffer];
    division_set(&loops->ops.items[1], &other, LOOP_UNDIVIDED);
    shared->in_lx = false;
    assert_ok(pass_lx_planning(loops, &changed));
    assert_false(shared->in_lx);
    double before = cost_as_planned(loops, &loops->ops.items[0]).us +
                    cost_as_planned(loops, &loops->ops.items[1]).us;
    text first = {0}, second = {0};
    loop_print(loops, &first);
    alternatives found = find(loops, 1, 0);
    loop_print(loops, &second);
    assert_string_equal(text_string(&first), text_string(&second));
    assert_non_null(named(&found, "instead of on one core"));
    assert_near(named(&found, "instead of on one core")->saved_us, before - planned);
    text_free(&first);
    text_free(&second);
    front_run_end(&run);
}

// A product on one core: the cheapest division by brute force.
static void alternatives__the_cheapest_division(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 512, 1024, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 1024, 2048, 0));
    front_case_output(
        &run, front_case_binary(&run, "spyre.batchmatmul", x, y, sizes_view(2, 512, 2048, 0)));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    loop_op *op = &loops->ops.items[0];
    division d = division_whole();
    division_set(op, &d, LOOP_UNDIVIDED);
    cost_basis basis = cost_basis_of(loops, op);
    double before = cost_at(loops, 0, 0), least = before;
    uint32_t row = 0, column = op->stick;
    while (row == column || loop_var_is_reduced(op, row)) row++;
    for (d.split[row] = 1; d.split[row] <= 32; d.split[row] *= 2)
        for (d.split[column] = 1; d.split[row] * d.split[column] <= 32; d.split[column] *= 2) {
            double us = cost_of(op, &basis, &d, 0).us;
            if (us < least) least = us;
        }
    alternatives found = find(loops, 0, 0);
    assert_int_equal(found.count, 1);
    assert_non_null(named(&found, "instead of on one core"));
    assert_near(found.best[0].saved_us, before - least);
    front_run_end(&run);
}

// Slices of a reduced loop are numbered last when the setting says so; a division that is proposed
// for its neighbour's sake has its numbers, too.
static void alternatives__numbers_cores_as_set(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    run.settings.core_id_k_fast_emission = false;
    run.settings.lx_planner_relayout = false;
    spyre_view wide = sizes_view(2, 64, 16384, 0);
    uint32_t x = front_case_unary(&run, "spyre.exp", front_case_input(&run, wide), wide);
    uint32_t y = front_case_input(&run, sizes_view(2, 16384, 64, 0));
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y,
                                              sizes_view(2, 64, 64, 0)));
    loop_graph *loops = front_case_before(&run, 32, "joint_work_division");
    bool changed;
    loop_op *exponential = &loops->ops.items[0], *product = &loops->ops.items[1];
    division d = division_whole();
    d.split[0] = 4, d.split[1] = 2, d.core_stride[1] = 4;
    division_set(exponential, &d, LOOP_DIVIDED_BY_AGREEMENT);
    assert_true(loop_var_is_reduced(product, 2));
    d = division_whole();
    d.split[0] = 8, d.split[2] = 2, d.core_stride[2] = 8;
    division_set(product, &d, LOOP_DIVIDED_BY_AGREEMENT);
    assert_ok(pass_lx_planning(loops, &changed));
    alternatives found = find(loops, 1, 0);
    assert_non_null(named(&found, "it were divided c0/4 c2/2+ instead of divided c0/8 c2/2+"));
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alternatives__a_buffer_in_lx),
        cmocka_unit_test(alternatives__room_in_lx),
        cmocka_unit_test(alternatives__nothing_to_gain),
        cmocka_unit_test(alternatives__a_division_that_agrees),
        cmocka_unit_test(alternatives__the_cheapest_division),
        cmocka_unit_test(alternatives__numbers_cores_as_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
