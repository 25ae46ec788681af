// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// A restickify whose operand walks a line of `extent` elements by loops of the given counts and
// strides; null, or why its sticks cannot be walked so.
static const char *walk_line(int64_t extent, const int64_t *counts, const int64_t *strides,
                             uint32_t loops, opfunc op, loop_location *out)
{
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(1, extent, 0, 0));
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, sizes_view(1, extent, 0, 0)));
    loop_graph *graph = front_case_before(&run, 1, "propagate_layouts");
    loop_op read = graph->ops.items[0];
    read.op = op;
    read.var_count = loops;
    for (uint32_t v = 0; v < loops; v++) {
        read.extent[v] = counts[v];
        read.operand[0].stride[v] = strides[v];
    }
    const char *why = loop_locate(graph, &read, &read.operand[0], out);
    front_run_end(&run);
    return why;
}

// 14 patches of 16 in a line of 224: four share a stick.
static void locate__patches_share_a_stick(void **state)
{
    (void)state;
    loop_location place;
    const int64_t counts[] = {14, 16}, strides[] = {16, 1};
    assert_null(walk_line(224, counts, strides, 2, OPFUNC_RESTICKIFY, &place));
    assert_int_equal(place.stick_var, 1);
    assert_int_equal(place.walk.count, 2);
    assert_int_equal(place.walk.span[1], 16);
    assert_int_equal(place.walk.span[0], 4);
    assert_int_equal(place.walk.step[0], 16);
    assert_int_equal(place.stride[0], SPYRE_STICK_BYTES);
}

// 768 as 3 channels of 16 lines of 16 pixels: channels are whole sticks.
static void locate__a_third_loop_walks_whole_sticks(void **state)
{
    (void)state;
    loop_location place;
    const int64_t counts[] = {3, 16, 16}, strides[] = {256, 16, 1};
    assert_null(walk_line(768, counts, strides, 3, OPFUNC_RESTICKIFY, &place));
    assert_int_equal(place.walk.count, 2);
    assert_int_equal(place.walk.span[1], 4);
    assert_int_equal(place.walk.span[0], 1);
    assert_int_equal(place.stride[0], 4 * SPYRE_STICK_BYTES);
}

// Heads of 48 end inside of sticks; pairs of which the first is left out begin there; other ops
// than copies have one loop along a stick.
static void locate__refuses_what_is_not_equal_parts(void **state)
{
    (void)state;
    loop_location place;
    const int64_t heads[] = {8, 48}, at_48[] = {48, 1}, seconds[] = {64}, at_2[] = {2};
    const int64_t patches[] = {14, 16}, at_16[] = {16, 1}, gaps[] = {4, 12};
    const opfunc op = OPFUNC_RESTICKIFY;
    assert_string_equal(walk_line(384, heads, at_48, 2, op, &place), "steps inside a stick");
    assert_string_equal(walk_line(128, seconds, at_2, 1, op, &place), "steps inside a stick");
    assert_string_equal(walk_line(64, gaps, at_16, 2, op, &place), "steps inside a stick");
    assert_string_equal(walk_line(224, patches, at_16, 2, OPFUNC_NEG, &place),
                        "steps inside a stick");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locate__patches_share_a_stick),
        cmocka_unit_test(locate__a_third_loop_walks_whole_sticks),
        cmocka_unit_test(locate__refuses_what_is_not_equal_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
