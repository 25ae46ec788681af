// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static loop_graph *add_two(front_run *run, double first, double second)
{
    spyre_view view = sizes_view(1, 64, 0, 0);
    uint32_t x = front_case_input(run, view);
    uint32_t a = front_case_binary(run, "spyre.add", x, front_case_constant(run, first), view);
    uint32_t b = front_case_binary(run, "spyre.add", a, front_case_constant(run, second), view);
    front_case_output(run, b);
    return front_case_before(run, 1, "dedup_constants");
}

static void dedup_constants__merges_equal_values(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = add_two(&run, 0.5, 0.5);
    const loop_op *ops = loops->ops.items;
    bool changed = false;
    assert_int_not_equal(ops[0].operand[1].buffer, ops[1].operand[1].buffer);
    assert_ok(pass_dedup_constants(loops, &changed));
    assert_true(changed);
    assert_int_equal(ops[0].operand[1].buffer, ops[1].operand[1].buffer);
    front_run_end(&run);
}

static void dedup_constants__keeps_signed_zeros_apart(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = add_two(&run, 0.0, -0.0);
    bool changed = true;
    assert_ok(pass_dedup_constants(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dedup_constants__merges_equal_values),
        cmocka_unit_test(dedup_constants__keeps_signed_zeros_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
