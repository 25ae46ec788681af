// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"
#include "support/random_plan.h"

// The clone in relu(x.permute(1, 0, 2).flatten(0, 1)) and in what `rest` makes of it, and other
// copies; the way of the first op to x in *out_read.
static uint32_t count_copies(const char *rest, loop_access *out_read)
{
    char source[1024];
    spyre_settings settings = spyre_settings_default();
    spyre_graph *graph;
    loop_graph *loops;
    arena *memory = arena_create();
    snprintf(source, sizeof source,
             "input %%x: f16[4, 64, 128]\ninput %%w: f16[128, 128]\n"
             "%%p = aten.permute.default(%%x, [1, 0, 2]) -> f16[64, 4, 128]{128, 8192, 1}\n"
             "%%c = aten.clone.default(%%p) -> f16[64, 4, 128]\n"
             "%%v = aten.view.default(%%c, [256, 128]) -> f16[256, 128]\n%s",
             rest);
    assert_ok(random_plan_read(source, "case.graph", &settings, memory, &graph, &loops));
    uint32_t copies = front_case_count(loops, OPFUNC_IDENTITY);
    *out_read = loops->ops.items[0].operand[0];
    spyre_graph_destroy(graph);
    arena_destroy(memory);
    return copies;
}

static void forward_copies__one_element_wise_reader_reads_through(void **state)
{
    (void)state;
    loop_access read;
    assert_int_equal(count_copies("%r = aten.relu.default(%v) -> f16[256, 128]\n"
                                  "return %r\n",
                                  &read),
                     0);
    assert_int_equal(read.stride[0], 128);
    assert_int_equal(read.stride[1], 64 * 128);
    assert_int_equal(read.stride[2], 1);
    // Rows 1, 3, .. of the copy: all of dim 1 of x, and odd indices of dim 0.
    assert_int_equal(count_copies("%s = aten.slice.Tensor(%v, 0, 1, 256, 2) -> f16[128, 128]"
                                  "{256, 1}+128\n"
                                  "%r = aten.relu.default(%s) -> f16[128, 128]\nreturn %r\n",
                                  &read),
                     0);
    assert_int_equal(read.offset, 64 * 128);
    assert_int_equal(read.stride[0], 128);
    assert_int_equal(read.stride[1], 2 * 64 * 128);
}

static void forward_copies__copies_of_copies_go(void **state)
{
    (void)state;
    loop_access read;
    assert_int_equal(count_copies("%q = aten.permute.default(%c, [2, 0, 1]) -> f16[128, 64, 4]"
                                  "{1, 512, 128}\n"
                                  "%d = aten.clone.default(%q) -> f16[128, 64, 4]\n"
                                  "%e = aten.permute.default(%d, [1, 2, 0]) -> f16[64, 4, 128]"
                                  "{4, 1, 256}\n"
                                  "%f = aten.clone.default(%e) -> f16[64, 4, 128]\n"
                                  "%r = aten.relu.default(%f) -> f16[64, 4, 128]\nreturn %r\n",
                                  &read),
                     0);
    assert_int_equal(read.stride[0], 128);
    assert_int_equal(read.stride[1], 64 * 128);
    assert_int_equal(read.stride[2], 1);
}

static void forward_copies__others_keep_the_copy(void **state)
{
    (void)state;
    loop_access read;
    assert_int_equal(count_copies("%r = aten.relu.default(%v) -> f16[256, 128]\n"
                                  "%s = aten.neg.default(%v) -> f16[256, 128]\n"
                                  "return %r, %s\n",
                                  &read),
                     1);
    assert_int_equal(
        count_copies("%r = aten.mm.default(%v, %w) -> f16[256, 128]\nreturn %r\n", &read), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_copies__one_element_wise_reader_reads_through),
        cmocka_unit_test(forward_copies__copies_of_copies_go),
        cmocka_unit_test(forward_copies__others_keep_the_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
