// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/divide/span_reduction.h"
#include "support/front_case.h"

enum { MIB = 1 << 20 };

static loop_graph *product(front_run *run, int64_t m, int64_t k, int64_t n, const char *pass)
{
    uint32_t x = front_case_input(run, sizes_view(2, m, k, 0));
    uint32_t y = front_case_input(run, sizes_view(2, k, n, 0));
    front_case_output(run,
                      front_case_binary(run, "spyre.batchmatmul", x, y, sizes_view(2, m, n, 0)));
    return front_case_before(run, 32, pass);
}

// The published example: A [8192, 32768], W [32768, 4096], O [8192, 4096] in fp16.
static void span_reduction__the_published_example(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = product(&run, 8192, 32768, 4096, "span_reduction");
    loop_op *op = &loops->ops.items[0];
    division whole = division_whole();
    assert_int_equal(span_of_operand(loops, op, &whole, 0), 512 * MIB);
    assert_int_equal(span_of_operand(loops, op, &whole, 1), 256 * MIB);
    assert_int_equal(span_of_operand(loops, op, &whole, 2), 64 * MIB);
    bool changed;
    assert_ok(pass_span_reduction(loops, &changed));
    assert_true(changed);
    for (uint32_t v = 0; v < op->var_count; v++)
        assert_int_equal(op->split[v], loop_var_is_reduced(op, v) ? 2 : 1);
    assert_int_equal(op->divided_by, LOOP_DIVIDED_BY_SPAN);
    division committed = division_get(op);
    assert_true(span_fits(loops, op, &committed));

    // What follows keeps K = 2 and gives the cores left to M.
    static const front_pass rest[] = {pass_matmul_split, pass_work_distribution,
                                      pass_joint_work_division};
    for (uint32_t i = 0; i < 3; i++) {
        assert_null(rest[i](loops, &changed));
        assert_ok(loop_verify(loops));
    }
    assert_int_equal(op->divided_by, LOOP_DIVIDED_BY_SPAN);
    for (uint32_t v = 0; v < op->var_count; v++) {
        int32_t split = op->extent[v] == 8192 ? 16 : op->extent[v] == 32768 ? 2 : 1;
        assert_int_equal(op->split[v], split);
        // Cores that share an output are neighbours.
        if (split > 1) assert_int_equal(op->core_stride[v], split == 2 ? 1 : 2);
    }
    front_run_end(&run);
}

static void span_reduction__small_tensors_stay_whole(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = product(&run, 1024, 2048, 4096, "span_reduction");
    bool changed = true;
    assert_ok(pass_span_reduction(loops, &changed));
    assert_false(changed);
    assert_int_equal(loops->ops.items[0].divided_by, LOOP_UNDIVIDED);
    front_run_end(&run);
}

// x [512, 1024] sticks along the columns: 16 tiles of 64 KiB, outermost. A limit of 256 KiB takes
// 4 slices, not more; one of 32 KiB all 16 tiles and then 2 slices of the rows.
static void span_reduction__fewest_slices_outer_dims_first(void **state)
{
    (void)state;
    static const struct {
        uint32_t limit;
        int32_t rows, columns;
    } cases[] = {{1 << 20, 1, 1}, {256 << 10, 1, 4}, {300 << 10, 1, 4}, {100 << 10, 1, 16},
                 {32 << 10, 2, 16}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        front_run run = front_run_begin();
        spyre_view view = sizes_view(2, 512, 1024, 0);
        uint32_t x = front_case_input(&run, view);
        front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
        loop_graph *loops = front_case_before(&run, 32, "span_reduction");
        bool changed;
        loops->settings.max_span_bytes = cases[i].limit;
        assert_ok(pass_span_reduction(loops, &changed));
        assert_int_equal(loops->ops.items[0].split[0], cases[i].rows);
        assert_int_equal(loops->ops.items[0].split[1], cases[i].columns);
        front_run_end(&run);
    }
}

// Both loops of a sum over everything would have to be divided.
static void span_reduction__two_reduced_loops_are_refused(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 512, 1024, 0));
    spyre_arg dims[] = {{.kind = SPYRE_ARG_INT, .of.integer = 0},
                        {.kind = SPYRE_ARG_INT, .of.integer = 1}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {dims, 2}}};
    front_case_output(&run, front_run_node(&run, "spyre.sum", args, 2, SPYRE_DTYPE_F16,
                                           (spyre_view){.rank = 0}));
    loop_graph *loops = front_case_before(&run, 32, "span_reduction");
    bool changed;
    loops->settings.max_span_bytes = 32 << 10;
    spyre_status status = pass_span_reduction(loops, &changed);
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    assert_non_null(strstr(spyre_status_message(status), "2 reduced loops"));
    spyre_status_free(status);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(span_reduction__the_published_example),
        cmocka_unit_test(span_reduction__small_tensors_stay_whole),
        cmocka_unit_test(span_reduction__fewest_slices_outer_dims_first),
        cmocka_unit_test(span_reduction__two_reduced_loops_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
