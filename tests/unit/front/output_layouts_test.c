// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static spyre_layout layout_of_output(const loop_graph *loops, uint32_t index)
{
    spyre_layout layout;
    const loop_buffer *buffer = &loops->buffers.items[loops->outputs.items[index].buffer];
    assert_ok(front_buffer_layout(buffer, &layout));
    return layout;
}

static void check_default(spyre_view view)
{
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
    spyre_layout found = layout_of_output(front_case_before(&run, 1, NULL), 0), wanted;
    assert_ok(spyre_layout_default(view.size, view.rank, SPYRE_DTYPE_F16, &wanted));
    assert_int_equal(found.rank, wanted.rank);
    for (uint32_t d = 0; d < wanted.rank; d++) {
        assert_int_equal(found.device_size[d], wanted.device_size[d]);
        assert_int_equal(found.stride_map[d], wanted.stride_map[d]);
    }
    front_run_end(&run);
}

static void output_layouts__contiguous_results_have_the_default(void **state)
{
    (void)state;
    check_default(sizes_view(1, 100, 0, 0));
    check_default(sizes_view(2, 50, 100, 0));
    check_default(sizes_view(3, 5, 1, 64));
    check_default(sizes_view(3, 5, 7, 130));
}

// Both halves of a head of 32 end in one stick of the output, which the ops between do not see.
static void output_layouts__a_cut_stick_is_copied_out(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view rows = sizes_view(2, 10, 64, 0), heads = {3, {2, 10, 32}, {32, 64, 1}, 0};
    uint32_t x = front_case_input(&run, rows), y = front_case_input(&run, sizes_view(3, 2, 10, 32));
    uint32_t n = front_case_unary(&run, "spyre.neg", x, rows);
    uint32_t cut = front_run_view(&run, n, SPYRE_DTYPE_F16, heads);
    front_case_output(&run, n);
    front_case_output(&run, front_case_binary(&run, "spyre.add", cut, y, sizes_view(3, 2, 10, 32)));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    spyre_layout layout = layout_of_output(loops, 0);
    assert_int_equal(layout.stride_map[layout.rank - 1], 1);
    assert_int_equal(loops->outputs.count, 2);
    assert_int_not_equal(loops->outputs.items[0].buffer, loops->outputs.items[1].buffer);
    front_run_end(&run);
}

// Rows of 1024 that are read in heads of 32 leave in heads of 32 without a copy; as rows, with one.
static void output_layouts__a_cut_stick_leaves_in_the_shape_of_the_output(void **state)
{
    (void)state;
    for (int as_heads = 0; as_heads < 2; as_heads++) {
        front_run run = front_run_begin();
        spyre_view heads = sizes_view(3, 8, 32, 32), rows = sizes_view(2, 8, 1024, 0);
        uint32_t x = front_case_input(&run, heads), y = front_case_input(&run, heads);
        uint32_t sum = front_case_binary(&run, "spyre.add", x, y, heads);
        uint32_t n = front_run_view(&run, sum, SPYRE_DTYPE_F16, rows);
        n = front_case_unary(&run, "spyre.neg", n, rows);
        if (as_heads) n = front_run_view(&run, n, SPYRE_DTYPE_F16, heads);
        front_case_output(&run, n);
        loop_graph *loops = front_case_before(&run, 1, NULL);
        spyre_layout layout = layout_of_output(loops, 0), wanted;
        const spyre_view *view = as_heads ? &heads : &rows;
        assert_ok(spyre_layout_default(view->size, view->rank, SPYRE_DTYPE_F16, &wanted));
        assert_int_equal(loops->ops.count == 2, as_heads);
        assert_memory_equal(layout.device_size, wanted.device_size,
                            wanted.rank * sizeof *wanted.device_size);
        front_run_end(&run);
    }
}

static spyre_layout layout_of_row_sums(int64_t rows, uint32_t *out_ops)
{
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, rows, 64, 0));
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 1};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}},
                        {.kind = SPYRE_ARG_BOOL}};
    front_case_output(&run, front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16,
                                           sizes_view(1, rows, 0, 0)));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    spyre_layout layout = layout_of_output(loops, 0);
    *out_ops = loops->ops.count;
    front_run_end(&run);
    return layout;
}

// A reduced stick leaves one element a stick, and the layout says so; where each core has sticks to
// fill, and LX has room for one an element, a copy fills them.
static void output_layouts__long_sparse_results_fill_their_sticks(void **state)
{
    (void)state;
    static const struct {
        int64_t rows;
        bool full;
    } cases[] = {{10, false}, {2047, false}, {2048, true}, {4100, true}, {1 << 20, false}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t ops;
        const spyre_layout layout = layout_of_row_sums(cases[i].rows, &ops);
        int64_t sticks = (cases[i].rows + 63) / 64;
        assert_int_equal(layout.rank, 2);
        assert_int_equal(layout.device_size[0], cases[i].full ? sticks : cases[i].rows);
        assert_int_equal(layout.stride_map[1], cases[i].full ? 1 : -1);
        assert_int_equal(ops, cases[i].full ? 2 : 1);
    }
}

// Keys that come with a stick of rows, as the matmul of the scores wants them, leave so unless
// results have the default layout.
static void output_layouts__default_results(void **state)
{
    (void)state;
    uint32_t in_default = 0;
    for (uint32_t insists = 0; insists < 2; insists++) {
        front_run run = front_run_begin();
        run.settings.default_results = insists;
        spyre_view rows = sizes_view(2, 128, 256, 0), columns = {2, {256, 128}, {1, 256}, 0};
        spyre_view across = {2, {128, 256}, {1, 128}, 0};
        uint32_t x = front_case_input(&run, sizes_view(2, 256, 128, 0));
        uint32_t y = front_case_input(&run, rows);
        x = front_run_view(&run, x, SPYRE_DTYPE_F16, across);
        uint32_t key = front_case_unary(&run, "spyre.neg", x, rows);
        uint32_t turned = front_run_view(&run, key, SPYRE_DTYPE_F16, columns);
        front_case_output(&run, key);
        front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", y, turned,
                                                  sizes_view(2, 128, 128, 0)));
        loop_graph *loops = front_case_before(&run, 1, NULL);
        spyre_layout layout = layout_of_output(loops, 0);
        in_default += layout.stride_map[layout.rank - 1] == 1;
        if (insists) assert_int_equal(layout.stride_map[layout.rank - 1], 1);
        front_run_end(&run);
    }
    assert_int_equal(in_default, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_layouts__contiguous_results_have_the_default),
        cmocka_unit_test(output_layouts__a_cut_stick_is_copied_out),
        cmocka_unit_test(output_layouts__a_cut_stick_leaves_in_the_shape_of_the_output),
        cmocka_unit_test(output_layouts__long_sparse_results_fill_their_sticks),
        cmocka_unit_test(output_layouts__default_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
