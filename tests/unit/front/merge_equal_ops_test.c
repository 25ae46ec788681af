// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static const spyre_view square = {2, {64, 64}, {64, 1}, 0};

static loop_graph *after_both(front_run *run)
{
    return front_case_before(run, 4, "normalize_loops");
}

// exp(x) * exp(x) + neg(exp(x)): three times exp, once with a view that changes nothing.
static void merge_equal_ops__the_first_of_equal_ops_stays(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square), e[3];
    for (int i = 0; i < 2; i++) e[i] = front_case_unary(&run, "spyre.exp", x, square);
    e[2] = front_case_unary(&run, "spyre.exp", front_run_view(&run, x, SPYRE_DTYPE_F16, square),
                            square);
    uint32_t product = front_case_binary(&run, "spyre.mul", e[0], e[1], square);
    uint32_t negative = front_case_unary(&run, "spyre.neg", e[2], square);
    front_case_output(&run, front_case_binary(&run, "spyre.add", product, negative, square));
    loop_graph *loops = after_both(&run);
    assert_int_equal(front_case_count(loops, OPFUNC_EXP), 1);
    assert_int_equal(loops->ops.count, 4);
    assert_int_equal(loops->ops.items[1].operand[0].buffer, loops->ops.items[1].operand[1].buffer);
    front_run_end(&run);
}

// Equal ops on merged operands are equal.
static void merge_equal_ops__whole_branches_merge(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square), branch[2];
    for (int i = 0; i < 2; i++) {
        uint32_t e = front_case_unary(&run, "spyre.exp", x, square);
        branch[i] = front_case_unary(&run, "spyre.neg", e, square);
    }
    front_case_output(&run, front_case_binary(&run, "spyre.add", branch[0], branch[1], square));
    assert_int_equal(after_both(&run)->ops.count, 3);
    front_run_end(&run);
}

static void merge_equal_ops__what_differs_stays(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view turned = {2, {64, 64}, {1, 64}, 0};
    uint32_t x = front_case_input(&run, square);
    uint32_t t = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    uint32_t a = front_case_unary(&run, "spyre.exp", x, square);
    uint32_t b = front_case_unary(&run, "spyre.exp", t, square);
    front_case_output(&run, front_case_binary(&run, "spyre.add", a, b, square));
    assert_int_equal(front_case_count(after_both(&run), OPFUNC_EXP), 2);
    front_run_end(&run);
}

// The caller may write into one of two results.
static void merge_equal_ops__results_stay_apart(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square);
    for (int i = 0; i < 2; i++)
        front_case_output(&run, front_case_unary(&run, "spyre.exp", x, square));
    assert_int_equal(front_case_count(after_both(&run), OPFUNC_EXP), 2);
    front_run_end(&run);
}

static void elide_copies__a_clone_goes(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square);
    uint32_t e = front_case_unary(&run, "spyre.exp", x, square);
    uint32_t once = front_case_unary(&run, "spyre.identity", e, square);
    uint32_t twice = front_case_unary(&run, "spyre.identity", once, square);
    front_case_output(&run, front_case_binary(&run, "spyre.add", twice, e, square));
    loop_graph *loops = after_both(&run);
    assert_int_equal(loops->ops.count, 2);
    assert_int_equal(loops->ops.items[1].operand[0].buffer, loops->ops.items[1].operand[1].buffer);
    front_run_end(&run);
}

static void elide_copies__copies_that_do_something_stay(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view turned = {2, {64, 64}, {1, 64}, 0};
    uint32_t x = front_case_input(&run, square);
    uint32_t e = front_case_unary(&run, "spyre.exp", x, square);
    uint32_t t = front_run_view(&run, e, SPYRE_DTYPE_F16, turned);
    uint32_t dense = front_case_unary(&run, "spyre.identity", t, square);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", dense, square));
    front_case_output(&run, front_case_unary(&run, "spyre.identity", e, square));
    assert_int_equal(front_case_count(after_both(&run), OPFUNC_IDENTITY), 2);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_equal_ops__the_first_of_equal_ops_stays),
        cmocka_unit_test(merge_equal_ops__whole_branches_merge),
        cmocka_unit_test(merge_equal_ops__what_differs_stays),
        cmocka_unit_test(merge_equal_ops__results_stay_apart),
        cmocka_unit_test(elide_copies__a_clone_goes),
        cmocka_unit_test(elide_copies__copies_that_do_something_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
