// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// Only the first negation reaches the output.
static loop_graph *begin(front_run *run)
{
    spyre_view view = sizes_view(2, 4, 64, 0);
    uint32_t x = front_case_input(run, view);
    uint32_t used = front_case_unary(run, "spyre.neg", x, view);
    uint32_t unused = front_case_unary(run, "spyre.abs", used, view);
    front_case_unary(run, "spyre.tanh", unused, view);
    front_case_output(run, used);
    return front_case_before(run, 1, "deadcode");
}

static void deadcode__removes_chains(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run);
    bool changed = false;
    assert_int_equal(loops->ops.count, 3);
    assert_ok(pass_deadcode(loops, &changed));
    assert_true(changed);
    assert_int_equal(loops->ops.count, 1);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_NEG);
    assert_ok(pass_deadcode(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

static void deadcode__keeps_every_piece(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(1, 64, 0, 0));
    spyre_arg pieces[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                          {.kind = SPYRE_ARG_VALUE, .of.value = x}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {pieces, 2}},
                        {.kind = SPYRE_ARG_INT, .of.integer = 0}};
    uint32_t both =
        front_run_node(&run, "spyre.cat", args, 2, SPYRE_DTYPE_F16, sizes_view(1, 128, 0, 0));
    front_case_output(&run, both);
    loop_graph *loops = front_case_before(&run, 1, "deadcode");
    bool changed = true;
    assert_ok(pass_deadcode(loops, &changed));
    assert_false(changed);
    assert_int_equal(loops->ops.count, 2);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadcode__removes_chains),
        cmocka_unit_test(deadcode__keeps_every_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
