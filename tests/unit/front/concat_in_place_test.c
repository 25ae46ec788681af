// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

enum { ROWS = 4 };

static uint32_t cat(front_run *run, uint32_t first, uint32_t second, int64_t width)
{
    spyre_arg pieces[] = {{.kind = SPYRE_ARG_VALUE, .of.value = first},
                          {.kind = SPYRE_ARG_VALUE, .of.value = second}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {pieces, 2}},
                        {.kind = SPYRE_ARG_INT, .of.integer = 1}};
    return front_run_node(run, "spyre.cat", args, 2, SPYRE_DTYPE_F16,
                          sizes_view(2, ROWS, width, 0));
}

// A piece that is computed before another, which is an input: of `width` columns each. The first is
// read once more when `shared`.
static loop_graph *begin(front_run *run, int64_t width, bool shared)
{
    spyre_view view = sizes_view(2, ROWS, width, 0);
    uint32_t x = front_case_input(run, view);
    uint32_t piece = front_case_unary(run, "spyre.neg", x, view);
    front_case_output(run, cat(run, x, piece, 2 * width));
    if (shared) front_case_output(run, front_case_unary(run, "spyre.abs", piece, view));
    return front_case_before(run, 1, "concat_in_place");
}

static void concat_in_place__an_op_writes_its_piece(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run, 64, false);
    bool changed = false;
    assert_int_equal(loops->ops.count, 3);
    assert_ok(pass_concat_in_place(loops, &changed));
    assert_true(changed);
    assert_int_equal(loops->ops.count, 2);
    const loop_access *result = loop_output_of(&loops->ops.items[0]);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_NEG);
    assert_int_equal(result->buffer, loop_output_of(&loops->ops.items[1])->buffer);
    assert_int_equal(result->offset, 64);
    assert_int_equal(result->stride[0], 128);
    assert_int_equal(result->stride[1], 1);
    assert_ok(pass_concat_in_place(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

// A piece that is a concatenation itself: what it is made of goes to the outer one at once.
static void concat_in_place__pieces_of_pieces(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, ROWS, 64, 0);
    uint32_t x = front_case_input(&run, view);
    uint32_t first = front_case_unary(&run, "spyre.neg", x, view);
    uint32_t second = front_case_unary(&run, "spyre.abs", x, view);
    front_case_output(&run, cat(&run, x, cat(&run, first, second, 128), 192));
    loop_graph *loops = front_case_before(&run, 1, "concat_in_place");
    bool changed = false;
    assert_int_equal(loops->ops.count, 6);
    assert_ok(pass_concat_in_place(loops, &changed));
    assert_true(changed);
    assert_int_equal(loops->ops.count, 3);
    const uint32_t outer = loop_result(&loops->ops.items[2])->buffer;
    for (uint32_t n = 0; n < 2; n++) {
        const loop_access *result = loop_result(&loops->ops.items[n]);
        assert_int_equal(loops->ops.items[n].op, n ? OPFUNC_ABS : OPFUNC_NEG);
        assert_int_equal(result->buffer, outer);
        assert_int_equal(result->offset, 64 + 64 * n);
        assert_int_equal(result->stride[0], 192);
        assert_int_equal(result->stride[1], 1);
    }
    front_run_end(&run);
}

static void expect_no_change(int64_t width, bool shared)
{
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run, width, shared);
    bool changed = true;
    assert_ok(pass_concat_in_place(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

static void concat_in_place__a_piece_that_cuts_a_stick_is_copied(void **state)
{
    (void)state;
    expect_no_change(48, false);
}

static void concat_in_place__a_piece_that_is_read_elsewhere_is_copied(void **state)
{
    (void)state;
    expect_no_change(64, true);
}

static void concat_in_place__a_sum_is_copied(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_arg dims[] = {{.kind = SPYRE_ARG_INT, .of.integer = 1}};
    uint32_t x = front_case_input(&run, sizes_view(3, ROWS, 8, 64));
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {dims, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = false}};
    uint32_t sum =
        front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, sizes_view(2, ROWS, 64, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, ROWS, 64, 0));
    front_case_output(&run, cat(&run, sum, y, 128));
    bool changed = true;
    assert_ok(pass_concat_in_place(front_case_before(&run, 1, "concat_in_place"), &changed));
    assert_false(changed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concat_in_place__an_op_writes_its_piece),
        cmocka_unit_test(concat_in_place__pieces_of_pieces),
        cmocka_unit_test(concat_in_place__a_piece_that_cuts_a_stick_is_copied),
        cmocka_unit_test(concat_in_place__a_piece_that_is_read_elsewhere_is_copied),
        cmocka_unit_test(concat_in_place__a_sum_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
