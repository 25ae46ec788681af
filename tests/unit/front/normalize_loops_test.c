// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// x(50, 10, 200).flatten(0, 1) + y(500, 200)
static void normalize_loops__cuts_a_flattened_dim(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(3, 50, 10, 200));
    spyre_view flat = sizes_view(2, 500, 200, 0);
    uint32_t y = front_case_input(&run, flat);
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, flat);
    front_case_output(&run, front_case_binary(&run, "spyre.add", view, y, flat));
    loop_graph *loops = front_case_before(&run, 1, "normalize_loops");
    bool changed = false;
    assert_string_equal(front_case_loops(loops, 0), "500 200");
    assert_ok(pass_normalize_loops(loops, &changed));
    assert_true(changed);
    assert_string_equal(front_case_loops(loops, 0), "50 10 200");
    front_run_end(&run);
}

// A cut of the second op's operand reaches the first op through the buffer between them.
static void normalize_loops__cuts_travel_backwards(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view row = sizes_view(1, 96, 0, 0), turned = {2, {32, 3}, {1, 32}, 0};
    uint32_t x = front_case_input(&run, row);
    uint32_t n = front_case_unary(&run, "spyre.neg", x, row);
    uint32_t view = front_run_view(&run, n, SPYRE_DTYPE_F16, turned);
    front_case_output(&run, front_case_unary(&run, "spyre.abs", view, sizes_view(2, 32, 3, 0)));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_string_equal(front_case_loops(loops, 0), "3 32");
    assert_string_equal(front_case_loops(loops, 1), "32 3");
    front_run_end(&run);
}

// One reader cuts the dim of 16 in fours, another begins in the midst of a part: it stays whole.
static void normalize_loops__keeps_what_cuts_do_not_fit(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view turned = {2, {4, 4}, {1, 4}, 0}, middle = {1, {12}, {1}, 2};
    uint32_t x = front_case_input(&run, sizes_view(1, 16, 0, 0));
    uint32_t n = front_case_unary(&run, "spyre.neg", x, sizes_view(1, 16, 0, 0));
    uint32_t first = front_run_view(&run, n, SPYRE_DTYPE_F16, turned);
    uint32_t second = front_run_view(&run, n, SPYRE_DTYPE_F16, middle);
    front_case_output(&run, front_case_unary(&run, "spyre.abs", first, sizes_view(2, 4, 4, 0)));
    front_case_output(&run, front_case_unary(&run, "spyre.abs", second, sizes_view(1, 12, 0, 0)));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_string_equal(front_case_loops(loops, 0), "16");
    assert_string_equal(front_case_loops(loops, 1), "4 4");
    assert_string_equal(front_case_loops(loops, 2), "12");
    const loop_buffer *kept = &loops->buffers.items[loop_output_of(&loops->ops.items[0])->buffer];
    assert_int_equal(kept->dim_count, 1);
    front_run_end(&run);
}

// Halves of 32 that one op writes do not reach the product that sums over both.
static void normalize_loops__factors_keep_their_columns(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view pairs = {3, {8, 2, 32}, {64, 1, 2}, 0}, halves = sizes_view(3, 8, 2, 32);
    spyre_view rows = sizes_view(2, 8, 64, 0), result = sizes_view(2, 8, 128, 0);
    uint32_t x = front_case_input(&run, sizes_view(3, 8, 32, 2));
    uint32_t weight = front_case_input(&run, sizes_view(2, 64, 128, 0));
    x = front_run_view(&run, x, SPYRE_DTYPE_F16, pairs);
    uint32_t n = front_run_view(&run, front_case_unary(&run, "spyre.neg", x, halves),
                                SPYRE_DTYPE_F16, rows);
    uint32_t factor = front_case_unary(&run, "spyre.abs", n, rows);
    front_case_output(&run,
                      front_case_binary(&run, "spyre.batchmatmul", factor, weight, result));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_string_equal(front_case_loops(loops, 0), "8 2 32");
    assert_string_equal(front_case_loops(loops, 1), "8 2 32");
    assert_string_equal(front_case_loops(loops, 2), "8 128 64");
    front_run_end(&run);
}

// Columns that an input holds in heads of 32 are copied side by side; heads of a stick are not.
static void normalize_loops__copies_factors_in_parts_of_sticks(void **state)
{
    (void)state;
    for (int64_t head = 32; head <= 64; head += 32) {
        front_run run = front_run_begin();
        uint32_t x = front_case_input(&run, sizes_view(2, 64, 40, 0));
        uint32_t y = front_case_input(&run, sizes_view(3, 40, 4, head));
        spyre_view flat = sizes_view(2, 40, 4 * head, 0);
        uint32_t view = front_run_view(&run, y, SPYRE_DTYPE_F16, flat);
        front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, view,
                                                  sizes_view(2, 64, 4 * head, 0)));
        loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
        const loop_op *product = &loops->ops.items[loops->ops.count - 1];
        assert_int_equal(product->op, OPFUNC_BATCHMATMUL);
        assert_int_equal(loops->ops.count, head == 32 ? 2 : 1);
        if (head == 32) assert_string_equal(front_case_loops(loops, 1), "64 128 40");
        front_run_end(&run);
    }
}

// The diagonal of x: no dims of x have its stride.
static void normalize_loops__refuses_steps_across_dims(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = {1, {128}, {129}, 0};
    uint32_t x = front_case_input(&run, sizes_view(2, 128, 128, 0));
    uint32_t other = front_run_view(&run, x, SPYRE_DTYPE_F16, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", other, view));
    loop_graph *loops = front_case_before(&run, 1, "normalize_loops");
    bool changed;
    spyre_status status = pass_normalize_loops(loops, &changed);
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    assert_non_null(strstr(spyre_status_message(status), "(model.py:1): a view"));
    spyre_status_free(status);
    front_run_end(&run);
}

// x as (64, 6) while its dims are (3, 128): a copy has the dims (192, 2).
static void normalize_loops__copies_an_input_into_dims_that_go_with_its_own(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 6, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 3, 128, 0));
    uint32_t other = front_run_view(&run, x, SPYRE_DTYPE_F16, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", other, view));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_int_equal(loops->ops.count, 2);
    assert_string_equal(front_case_loops(loops, 0), "3 128");
    assert_string_equal(front_case_loops(loops, 1), "64 6");
    front_run_end(&run);
}

// What the first op writes as (4, 4, 4, 4), x[1:15] and x[.., 1:15] of it as (16, 16) read.
static uint32_t read_pixels_of_windows(front_run *run, uint32_t windows)
{
    spyre_view inner = {2, {14, 14}, {16, 1}, 17};
    uint32_t view = front_run_view(run, windows, SPYRE_DTYPE_F16, inner);
    return front_case_unary(run, "spyre.abs", view, sizes_view(2, 14, 14, 0));
}

static const spyre_view WINDOWS = {4, {4, 4, 4, 4}, {64, 16, 4, 1}, 0};

static void normalize_loops__gives_a_local_buffer_the_dims_of_its_reader(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, WINDOWS);
    uint32_t n = front_case_unary(&run, "spyre.neg", x, WINDOWS);
    front_case_output(&run, read_pixels_of_windows(&run, n));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_int_equal(loops->ops.count, 2);
    assert_string_equal(front_case_loops(loops, 0), "4 4 4 4");
    assert_string_equal(front_case_loops(loops, 1), "14 14");
    front_run_end(&run);
}

static void normalize_loops__copies_an_input_into_the_dims_of_its_readers(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, WINDOWS);
    front_case_output(&run, read_pixels_of_windows(&run, x));
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, WINDOWS));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_int_equal(loops->ops.count, 3);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_IDENTITY);
    assert_int_equal(loops->ops.items[1].operand[0].buffer, loops->ops.items[0].operand[1].buffer);
    assert_int_equal(loops->ops.items[2].operand[0].buffer, loops->ops.items[0].operand[0].buffer);
    front_run_end(&run);
}

static void normalize_loops__copies_an_input_once_for_both_operands(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view first = {2, {14, 14}, {16, 1}, 17}, second = {2, {14, 14}, {16, 1}, 1};
    uint32_t x = front_case_input(&run, WINDOWS);
    uint32_t a = front_run_view(&run, x, SPYRE_DTYPE_F16, first);
    uint32_t b = front_run_view(&run, x, SPYRE_DTYPE_F16, second);
    front_case_output(&run, front_case_binary(&run, "spyre.sub", a, b, sizes_view(2, 14, 14, 0)));
    loop_graph *loops = front_case_before(&run, 1, "propagate_layouts");
    assert_int_equal(loops->ops.count, 2);
    const loop_op *sub = &loops->ops.items[1];
    assert_int_equal(sub->operand[0].buffer, loops->ops.items[0].operand[1].buffer);
    assert_int_equal(sub->operand[1].buffer, sub->operand[0].buffer);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalize_loops__cuts_a_flattened_dim),
        cmocka_unit_test(normalize_loops__cuts_travel_backwards),
        cmocka_unit_test(normalize_loops__keeps_what_cuts_do_not_fit),
        cmocka_unit_test(normalize_loops__factors_keep_their_columns),
        cmocka_unit_test(normalize_loops__copies_factors_in_parts_of_sticks),
        cmocka_unit_test(normalize_loops__refuses_steps_across_dims),
        cmocka_unit_test(normalize_loops__copies_an_input_into_dims_that_go_with_its_own),
        cmocka_unit_test(normalize_loops__gives_a_local_buffer_the_dims_of_its_reader),
        cmocka_unit_test(normalize_loops__copies_an_input_into_the_dims_of_its_readers),
        cmocka_unit_test(normalize_loops__copies_an_input_once_for_both_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
