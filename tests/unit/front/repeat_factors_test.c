// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"
#include "support/random_plan.h"

// The elements of the largest buffer in a program of the lines in front of what is made of %x,
// [4, 8, 32, 128], and %w, [8, 128, 64].
static int64_t largest_local(const char *lines)
{
    char source[2048];
    spyre_settings settings = spyre_settings_default();
    spyre_graph *graph;
    loop_graph *loops;
    arena *memory = arena_create();
    snprintf(source, sizeof source,
             "input %%x: f16[4, 8, 32, 128]\ninput %%w: f16[8, 128, 64]\n%s", lines);
    assert_ok(random_plan_read(source, "case.graph", &settings, memory, &graph, &loops));
    int64_t most = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        const loop_buffer *b = &loops->buffers.items[loop_result(op)->buffer];
        int64_t elements = 1;
        for (uint32_t d = 0; d < b->dim_count; d++) elements *= b->dim[d].extent;
        if (b->output < 0 && elements > most) most = elements;
    }
    spyre_graph_destroy(graph);
    arena_destroy(memory);
    return most;
}

#define REPEATED                                                                                   \
    "%e = aten.expand.default(%w, [4, 8, 128, 64], false) -> f16[4, 8, 128, 64]{0, 8192, 64, 1}\n" \
    "%c = aten.clone.default(%e) -> f16[4, 8, 128, 64]\n"                                          \
    "%y = aten.view.default(%c, [32, 128, 64]) -> f16[32, 128, 64]\n"
#define PRODUCT                                                                                    \
    "%v = aten.view.default(%x, [32, 32, 128]) -> f16[32, 32, 128]\n"                              \
    "%p = aten.bmm.default(%v, %y) -> f16[32, 32, 64]\n"

static void repeat_factors__a_product_shares_what_is_expanded(void **state)
{
    (void)state;
    assert_true(largest_local(REPEATED PRODUCT "return %p\n") <= 8 * 128 * 64);
}

static void repeat_factors__what_is_returned_or_added_is_repeated(void **state)
{
    (void)state;
    int64_t most = largest_local(REPEATED PRODUCT
                                 "%n = aten.neg.default(%y) -> f16[32, 128, 64]\n"
                                 "return %p, %n\n");
    assert_int_equal(most, 4 * 8 * 128 * 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeat_factors__a_product_shares_what_is_expanded),
        cmocka_unit_test(repeat_factors__what_is_returned_or_added_is_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
