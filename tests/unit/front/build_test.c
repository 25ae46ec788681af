// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static spyre_status compile(front_run *run, uint32_t *out_node)
{
    front_result result;
    front_options options = {.settings = spyre_settings_default()};
    return front_compile(run->graph, &options, run->memory, out_node, &result);
}

static uint32_t reduced(front_run *run, const char *op, uint32_t x, spyre_dtype dtype, int64_t dim,
                        spyre_view out)
{
    spyre_arg dims = {.kind = SPYRE_ARG_INT, .of.integer = dim};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dims, 1}},
                        {.kind = SPYRE_ARG_BOOL}};
    return front_run_node(run, op, args, 3, dtype, out);
}

static uint32_t sum(front_run *run, uint32_t x, spyre_dtype dtype, int64_t dim, spyre_view out)
{
    return reduced(run, "spyre.sum", x, dtype, dim, out);
}

static void check_refusal(front_run *run, uint32_t node, const char *rule)
{
    uint32_t at = SPYRE_NO_ID;
    spyre_status status = compile(run, &at);
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    if (!strstr(spyre_status_message(status), rule)) fail_msg("%s", spyre_status_message(status));
    assert_int_equal(at, node);
    spyre_status_free(status);
}

static void build__means_of_integers_are_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    int64_t size[] = {4, 64};
    uint32_t x = front_run_input(&run, SPYRE_DTYPE_I32, 2, size, NULL);
    spyre_view row = sizes_view(1, 4, 0, 0);
    front_case_output(&run, reduced(&run, "spyre.mean", x, SPYRE_DTYPE_I32, 1, row));
    check_refusal(&run, 0, "mean of integers is not supported");
    front_run_end(&run);
}

// x[4, 64] repeated 3 times, then summed over the repeats.
static void build__a_sum_of_repeats_alone_is_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view repeated = {3, {3, 4, 64}, {0, 64, 1}, 0};
    uint32_t x = front_case_input(&run, sizes_view(2, 4, 64, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, repeated);
    front_case_output(&run, sum(&run, view, SPYRE_DTYPE_F16, 0, sizes_view(2, 4, 64, 0)));
    check_refusal(&run, 1, "node 1 spyre.sum (model.py:1): a sum over repeats only");
    front_run_end(&run);
}

static void build__a_sum_over_repeats_is_scaled(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view repeated = {3, {4, 3, 64}, {64, 0, 1}, 0};
    uint32_t x = front_case_input(&run, sizes_view(2, 4, 64, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, repeated);
    spyre_arg dims[] = {{.kind = SPYRE_ARG_INT, .of.integer = 1},
                        {.kind = SPYRE_ARG_INT, .of.integer = 2}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = view},
                        {.kind = SPYRE_ARG_LIST, .of.list = {dims, 2}},
                        {.kind = SPYRE_ARG_BOOL}};
    front_case_output(
        &run, front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, sizes_view(1, 4, 0, 0)));
    loop_graph *loops = front_case_before(&run, 1, "normalize_loops");
    assert_int_equal(loops->ops.items[0].op, OPFUNC_MEAN);
    assert_true(loops->ops.items[0].parameter[0] == 3.0f);
    assert_string_equal(front_case_loops(loops, 0), "4 64");
    front_run_end(&run);
}

// Windows of 8 elements, one element apart, that run on from row to row.
static void build__overlapping_windows_are_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view windows = {2, {8, 8}, {1, 1}, 0}, out = sizes_view(2, 8, 8, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 10, 10, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, windows);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", view, out));
    check_refusal(&run, 1, "its dims overlap");
    front_run_end(&run);
}

// Windows are many more elements than their storage: 2^50 of 5116 here.
static void build__huge_loops_are_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = {5, {1024, 1024, 1024, 1024, 1024}, {1, 1, 1, 1, 1}, 0};
    uint32_t x = front_case_input(&run, sizes_view(1, 5116, 0, 0));
    uint32_t windows = front_run_view(&run, x, SPYRE_DTYPE_F16, view);
    view.rank = 4;
    front_case_output(&run, sum(&run, windows, SPYRE_DTYPE_F16, 4, view));
    check_refusal(&run, 1, "more than 2^40 points");
    front_run_end(&run);
}

// A device dim that holds nothing but takes room.
static void build__holes_in_a_layout_are_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 4, 64, 0);
    uint32_t x = front_case_input(&run, view);
    spyre_layout holes = {.rank = 4,
                          .device_size = {1, 4, 3, 64},
                          .stride_map = {64, 64, -1, 1},
                          .format = SPYRE_FORMAT_SEN169_FP16};
    run.graph->inputs.items[0].layout = holes;
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
    check_refusal(&run, 0, "device dim 2 of size 3 and stride -1 is no dim of the host tensor");
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build__means_of_integers_are_refused),
        cmocka_unit_test(build__a_sum_of_repeats_alone_is_refused),
        cmocka_unit_test(build__a_sum_over_repeats_is_scaled),
        cmocka_unit_test(build__overlapping_windows_are_refused),
        cmocka_unit_test(build__huge_loops_are_refused),
        cmocka_unit_test(build__holes_in_a_layout_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
