// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"
#include "support/random_plan.h"

// The copies in a program that makes %b of [4, 32, 64] as `maker` says and returns what `rest`
// makes of it; the way of the last op's result in *out_written.
static uint32_t count_copies(const char *maker, const char *rest, loop_access *out_written)
{
    char source[1024];
    spyre_settings settings = spyre_settings_default();
    spyre_graph *graph;
    loop_graph *loops;
    arena *memory = arena_create();
    snprintf(source, sizeof source,
             "input %%x: f16[4, 32, 128]\ninput %%y: f16[4, 128, 64]\ninput %%z: f16[4, 32, 64]\n"
             "%%b = %s -> f16[4, 32, 64]\n%s",
             maker, rest);
    assert_ok(random_plan_read(source, "case.graph", &settings, memory, &graph, &loops));
    uint32_t copies = front_case_count(loops, OPFUNC_IDENTITY) +
                      front_case_count(loops, OPFUNC_RESTICKIFY);
    *out_written = *loop_result(&loops->ops.items[loops->ops.count - 1]);
    spyre_graph_destroy(graph);
    arena_destroy(memory);
    return copies;
}

#define IN_ROWS                                                                                    \
    "%p = aten.permute.default(%b, [1, 0, 2]) -> f16[32, 4, 64]{64, 2048, 1}\n"                    \
    "%c = aten.clone.default(%p) -> f16[32, 4, 64]\n"
#define PRODUCT "aten.bmm.default(%x, %y)"

static void expect_rows_of_four(const char *maker)
{
    loop_access written;
    assert_int_equal(count_copies(maker, IN_ROWS "return %c\n", &written), 0);
    assert_int_equal(written.stride[0], 64);
    assert_int_equal(written.stride[1], 256);
    assert_int_equal(written.stride[2], 1);
}

static void write_through_copies__a_product_writes_in_another_order(void **state)
{
    (void)state;
    expect_rows_of_four(PRODUCT);
}

static void write_through_copies__an_element_wise_op_does(void **state)
{
    (void)state;
    expect_rows_of_four("aten.relu.default(%z)");
}

static void write_through_copies__what_is_read_elsewhere_or_turned_is_copied(void **state)
{
    (void)state;
    loop_access written;
    assert_int_equal(count_copies(PRODUCT,
                                  IN_ROWS "%s = aten.neg.default(%b) -> f16[4, 32, 64]\n"
                                          "return %c, %s\n",
                                  &written),
                     1);
    assert_int_equal(count_copies(PRODUCT,
                                  "%p = aten.permute.default(%b, [0, 2, 1]) -> "
                                  "f16[4, 64, 32]{2048, 1, 64}\n"
                                  "%c = aten.clone.default(%p) -> f16[4, 64, 32]\nreturn %c\n",
                                  &written),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_through_copies__a_product_writes_in_another_order),
        cmocka_unit_test(write_through_copies__an_element_wise_op_does),
        cmocka_unit_test(write_through_copies__what_is_read_elsewhere_or_turned_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
