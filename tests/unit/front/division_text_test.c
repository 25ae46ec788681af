// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/divide/division_text.h"
#include "support/front_case.h"

// [8192, 32768] x [32768, 4096] ends as M = 16, K = 2.
static loop_graph *large_product(front_run *run)
{
    uint32_t x = front_case_input(run, sizes_view(2, 8192, 32768, 0));
    uint32_t y = front_case_input(run, sizes_view(2, 32768, 4096, 0));
    front_case_output(
        run, front_case_binary(run, "spyre.batchmatmul", x, y, sizes_view(2, 8192, 4096, 0)));
    return front_case_before(run, 32, "memory_planning");
}

static void division_splits__by_coefficient(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    const loop_graph *loops = large_product(&run);
    const loop_op *op = &loops->ops.items[0];
    division d = division_get(op);
    division_split splits[LOOP_MAX_VARS];
    assert_int_equal(division_splits_of(op, &d, splits), 2); // N is whole
    assert_false(splits[0].reduced);
    assert_int_equal(splits[0].coefficient, 4096);
    assert_int_equal(splits[0].slices, 16);
    assert_true(splits[1].reduced);
    assert_int_equal(splits[1].coefficient, 1);
    assert_int_equal(splits[1].slices, 2);
    text printed = {0};
    division_splits_print(loops, &printed);
    assert_non_null(strstr(text_string(&printed), "batchmatmul ({4096: 16}, {1: 2})"));
    text_free(&printed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(division_splits__by_coefficient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
