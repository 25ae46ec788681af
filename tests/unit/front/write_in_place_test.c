// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

enum { ROWS = 8, COLUMNS = 64 };

static spyre_view square(void)
{
    return sizes_view(2, COLUMNS, COLUMNS, 0);
}

static void replace(front_run *run, uint32_t value, uint32_t input)
{
    if (spyre_graph_add_update(run->graph, value, input)) abort();
}

static uint32_t slice(front_run *run, uint32_t of, int64_t first, int64_t rows)
{
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = of}};
    spyre_view view = sizes_view(2, rows, COLUMNS, 0);
    view.offset = first * COLUMNS;
    return front_run_node(run, "spyre.view", args, 1, SPYRE_DTYPE_F16, view);
}

// An input whose rows lie along the sticks of a column block: [rows, blocks, 64] on the card.
static uint32_t rows_outside(front_run *run, spyre_view view)
{
    uint32_t value;
    spyre_tensor_type type = {SPYRE_DTYPE_F16, true, view};
    spyre_layout layout = {.format = SPYRE_FORMAT_SEN169_FP16,
                           .rank = 3,
                           .device_size = {view.size[0], view.size[1] / 64, 64},
                           .stride_map = {view.size[1], 64, 1}};
    if (spyre_graph_add_input(run->graph, "outside", &type, &view, &layout, &value)) abort();
    return value;
}

// x with its third row replaced by -y.
static uint32_t new_row(front_run *run, uint32_t x)
{
    uint32_t y = front_case_input(run, sizes_view(2, 1, COLUMNS, 0));
    uint32_t part = front_case_unary(run, "spyre.neg", y, sizes_view(2, 1, COLUMNS, 0));
    spyre_arg pieces[] = {{.kind = SPYRE_ARG_VALUE, .of.value = slice(run, x, 0, 2)},
                          {.kind = SPYRE_ARG_VALUE, .of.value = part},
                          {.kind = SPYRE_ARG_VALUE, .of.value = slice(run, x, 3, ROWS - 3)}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {pieces, 3}},
                        {.kind = SPYRE_ARG_INT, .of.integer = 0}};
    return front_run_node(run, "spyre.cat", args, 2, SPYRE_DTYPE_F16,
                          sizes_view(2, ROWS, COLUMNS, 0));
}

static bool run_pass(loop_graph *loops)
{
    bool changed = false;
    assert_ok(pass_write_in_place(loops, &changed));
    return changed;
}

static void write_in_place__an_op_writes_where_it_read(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square()), y = front_case_input(&run, square());
    replace(&run, front_case_binary(&run, "spyre.add", x, y, square()), x);
    loop_graph *loops = front_case_before(&run, 4, "write_in_place");
    assert_int_equal(loops->output_buffer_count, 1);
    assert_true(run_pass(loops));
    const loop_op *add = &loops->ops.items[0];
    assert_int_equal(add->operand[2].buffer, add->operand[0].buffer);
    assert_int_equal(loops->outputs.items[0].buffer, add->operand[0].buffer);
    assert_int_equal(loops->output_buffer_count, 0);
    assert_ok(loop_verify(loops));
    assert_false(run_pass(loops));
    front_run_end(&run);
}

static void write_in_place__a_result_takes_the_order_of_dims_that_it_replaces(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, ROWS, 2 * COLUMNS, 0);
    uint32_t x = rows_outside(&run, view), y = front_case_input(&run, view);
    replace(&run, front_case_binary(&run, "spyre.add", x, y, view), x);
    replace(&run, front_case_unary(&run, "spyre.neg", y, view), y);
    loop_graph *loops = front_case_before(&run, 4, "write_in_place");
    assert_true(run_pass(loops));
    assert_int_equal(loops->output_buffer_count, 0);
    assert_null(loop_verify(loops));
    front_run_end(&run);
}

static void write_in_place__of_a_new_row_only_the_row_is_written(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, ROWS, COLUMNS, 0));
    replace(&run, new_row(&run, x), x);
    loop_graph *loops = front_case_before(&run, 4, "write_in_place");
    assert_int_equal(loops->ops.count, 3);
    assert_true(run_pass(loops));
    assert_int_equal(loops->ops.count, 1);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_NEG);
    assert_int_equal(loop_output_of(&loops->ops.items[0])->offset, 2 * COLUMNS);
    assert_int_equal(loops->buffers.items[loop_output_of(&loops->ops.items[0])->buffer].kind,
                     LOOP_INPUT);
    front_run_end(&run);
}

static void write_in_place__buffers_of_other_outputs_are_numbered_anew(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square());
    replace(&run, front_case_unary(&run, "spyre.neg", x, square()), x);
    front_case_output(&run, front_case_unary(&run, "spyre.abs", x, square()));
    loop_graph *loops = front_case_before(&run, 1, "write_in_place");
    // abs reads the old contents after neg has replaced them, unless a pass ordered them otherwise.
    bool reads_first = loops->ops.items[0].op == OPFUNC_ABS;
    assert_int_equal(run_pass(loops), reads_first);
    assert_int_equal(loops->output_buffer_count, reads_first ? 1 : 2);
    front_run_end(&run);
}

// Nothing is written in place; `value` is to replace `x`.
static void expect_refusal(front_run *run, uint32_t value, uint32_t x)
{
    replace(run, value, x);
    loop_graph *loops = front_case_before(run, 1, "write_in_place");
    uint32_t buffers = loops->output_buffer_count;
    assert_false(run_pass(loops));
    assert_int_equal(loops->output_buffer_count, buffers);
    front_run_end(run);
}

static void write_in_place__other_elements_of_the_same_op_are_not_overwritten(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square());
    uint32_t first = slice(&run, x, 0, 1);
    expect_refusal(&run, front_case_binary(&run, "spyre.add", x, first, square()), x);
}

static void write_in_place__a_product_does_not_overwrite_its_operand(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square()), y = front_case_input(&run, square());
    uint32_t product = front_case_binary(&run, "spyre.batchmatmul", x, y, square());
    expect_refusal(&run, product, x);
}

static void write_in_place__a_result_that_is_returned_too_stays_apart(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square());
    uint32_t value = front_case_unary(&run, "spyre.neg", x, square());
    front_case_output(&run, value);
    expect_refusal(&run, value, x);
}

static void write_in_place__updates_are_checked(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, square());
    uint32_t row = front_case_input(&run, sizes_view(2, 1, COLUMNS, 0));
    uint32_t value = front_case_unary(&run, "spyre.neg", x, square());
    const struct {
        uint32_t value, input;
        const char *rule;
    } bad[] = {{value, value, "no input"},
               {value, row, "dtype and sizes"},
               {value + 1, x, "does not exist"}};
    for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        spyre_status status = spyre_graph_add_update(run.graph, bad[i].value, bad[i].input);
        assert_int_equal(spyre_status_code(status), SPYRE_INVALID_ARGUMENT);
        assert_non_null(strstr(spyre_status_message(status), bad[i].rule));
        spyre_status_free(status);
    }
    replace(&run, value, x);
    spyre_status again = spyre_graph_add_update(run.graph, value, x);
    assert_non_null(strstr(spyre_status_message(again), "already"));
    spyre_status_free(again);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_in_place__an_op_writes_where_it_read),
        cmocka_unit_test(write_in_place__a_result_takes_the_order_of_dims_that_it_replaces),
        cmocka_unit_test(write_in_place__of_a_new_row_only_the_row_is_written),
        cmocka_unit_test(write_in_place__buffers_of_other_outputs_are_numbered_anew),
        cmocka_unit_test(write_in_place__other_elements_of_the_same_op_are_not_overwritten),
        cmocka_unit_test(write_in_place__a_product_does_not_overwrite_its_operand),
        cmocka_unit_test(write_in_place__a_result_that_is_returned_too_stays_apart),
        cmocka_unit_test(write_in_place__updates_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
