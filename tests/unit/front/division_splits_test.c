// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "front/division_splits.h"
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
    division d = division_get(op), again;
    division_split splits[LOOP_MAX_VARS];
    assert_int_equal(division_splits_of(op, &d, splits), 2); // N is whole
    assert_false(splits[0].reduced);
    assert_int_equal(splits[0].coefficient, 4096);
    assert_int_equal(splits[0].slices, 16);
    assert_true(splits[1].reduced);
    assert_int_equal(splits[1].coefficient, 1);
    assert_int_equal(splits[1].slices, 2);
    assert_null(division_from_splits(loops, op, splits, 2, &again));
    for (uint32_t v = 0; v < op->var_count; v++) {
        assert_int_equal(again.split[v], d.split[v]);
        if (d.split[v] > 1) assert_int_equal(again.core_stride[v], d.core_stride[v]);
    }
    text printed = {0};
    division_splits_print(loops, &printed);
    assert_non_null(strstr(text_string(&printed), "batchmatmul ({4096: 16}, {1: 2})"));
    text_free(&printed);
    front_run_end(&run);
}

// The same op with its loops in another order.
static void division_splits__survive_a_new_order_of_loops(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = large_product(&run);
    loop_op *op = &loops->ops.items[0], turned = *op;
    division d = division_get(op), found;
    division_split splits[LOOP_MAX_VARS];
    uint32_t count = division_splits_of(op, &d, splits), last = op->var_count - 1;
    for (uint32_t v = 0; v <= last; v++) {
        turned.extent[v] = op->extent[last - v];
        for (uint32_t k = 0; k < op->operand_count; k++)
            turned.operand[k].stride[v] = op->operand[k].stride[last - v];
    }
    assert_null(division_from_splits(loops, &turned, splits, count, &found));
    for (uint32_t v = 0; v <= last; v++) assert_int_equal(found.split[v], d.split[last - v]);
    front_run_end(&run);
}

static void division_splits__strangers_are_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = large_product(&run);
    division d;
    static const struct {
        division_split split;
        const char *message;
    } cases[] = {{{false, 77, 2}, "no result loop has coefficient 77"},
                 {{true, 4096, 2}, "no reduced loop has coefficient 4096"},
                 {{false, 4096, 3}, "has 8192 units, which 3 slices do not divide"}};
    for (uint32_t i = 0; i < 3; i++) {
        spyre_status status =
            division_from_splits(loops, &loops->ops.items[0], &cases[i].split, 1, &d);
        assert_int_equal(spyre_status_code(status), SPYRE_INVALID_ARGUMENT);
        assert_non_null(strstr(spyre_status_message(status), cases[i].message));
        spyre_status_free(status);
    }
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(division_splits__by_coefficient),
        cmocka_unit_test(division_splits__survive_a_new_order_of_loops),
        cmocka_unit_test(division_splits__strangers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
