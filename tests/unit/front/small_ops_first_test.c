// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

enum { LARGE = 128, SMALL = 2 };            // rows of 64

static uint32_t unary(front_run *run, const char *target, uint32_t of, int64_t rows)
{
    return front_case_unary(run, target, of, sizes_view(2, rows, 64, 0));
}

// abs and tanh of much, then neg of little, and sqrt of that, or of the first op's first rows.
static loop_graph *begin(front_run *run)
{
    uint32_t x = front_case_input(run, sizes_view(2, LARGE, 64, 0));
    uint32_t y = front_case_input(run, sizes_view(2, SMALL, 64, 0));
    uint32_t large = unary(run, "spyre.tanh", unary(run, "spyre.abs", x, LARGE), LARGE);
    uint32_t small = unary(run, "spyre.sqrt", unary(run, "spyre.neg", y, SMALL), SMALL);
    front_case_output(run, large);
    front_case_output(run, small);
    return front_case_before(run, 1, "small_ops_first");
}

static void require_order(const loop_graph *loops, const opfunc *expected)
{
    for (uint32_t n = 0; n < loops->ops.count; n++)
        assert_int_equal(loops->ops.items[n].op, expected[n]);
}

static void small_ops_first__passes_large_ops(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run);
    bool changed = false;
    assert_int_equal(loops->ops.count, 4);
    assert_ok(pass_small_ops_first(loops, &changed));
    assert_true(changed);
    require_order(loops, (opfunc[]){OPFUNC_NEG, OPFUNC_SQRT, OPFUNC_ABS, OPFUNC_TANH});
    changed = false;
    assert_ok(pass_small_ops_first(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

static void small_ops_first__stays_behind_what_it_reads(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run);
    bool changed = false;
    loops->ops.items[2].operand[0].buffer = loop_result(&loops->ops.items[0])->buffer;
    assert_ok(pass_small_ops_first(loops, &changed));
    assert_true(changed);
    require_order(loops, (opfunc[]){OPFUNC_ABS, OPFUNC_NEG, OPFUNC_SQRT, OPFUNC_TANH});
    front_run_end(&run);
}

static void small_ops_first__does_not_write_what_is_read_before(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run);
    bool changed = false;
    loop_output_of(&loops->ops.items[2])->buffer = loops->ops.items[0].operand[0].buffer;
    loops->ops.items[3].operand[0].buffer = loops->ops.items[0].operand[0].buffer;
    assert_ok(pass_small_ops_first(loops, &changed));
    require_order(loops, (opfunc[]){OPFUNC_ABS, OPFUNC_NEG, OPFUNC_SQRT, OPFUNC_TANH});
    front_run_end(&run);
}

static uint32_t of_dtype(front_run *run, const char *target, uint32_t of, spyre_dtype dtype)
{
    const spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = of}};
    return front_run_node(run, target, args, 1, dtype, sizes_view(2, LARGE, 64, 0));
}

// exp in float32, abs of something else, then the cast of the former, which alone reads it or not.
static loop_graph *begin_cast(front_run *run, bool alone)
{
    const spyre_view view = sizes_view(2, LARGE, 64, 0);
    const uint32_t x = front_run_input(run, SPYRE_DTYPE_F32, 2, view.size, NULL);
    const uint32_t wide = of_dtype(run, "spyre.exp", x, SPYRE_DTYPE_F32);
    front_case_output(run, of_dtype(run, "spyre.abs", alone ? x : wide, SPYRE_DTYPE_F32));
    front_case_output(run, of_dtype(run, "spyre.cast", wide, SPYRE_DTYPE_F16));
    return front_case_before(run, 1, "small_ops_first");
}

static void small_ops_first__casts_follow_what_they_alone_read(void **state)
{
    (void)state;
    bool changed = false;
    front_run run = front_run_begin();
    loop_graph *loops = begin_cast(&run, true);
    assert_ok(pass_small_ops_first(loops, &changed));
    assert_true(changed);
    require_order(loops, (opfunc[]){OPFUNC_EXP, OPFUNC_FP32TODL16, OPFUNC_ABS});
    front_run_end(&run);
    run = front_run_begin();
    loops = begin_cast(&run, false);
    changed = false;
    assert_ok(pass_small_ops_first(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ops_first__passes_large_ops),
        cmocka_unit_test(small_ops_first__stays_behind_what_it_reads),
        cmocka_unit_test(small_ops_first__does_not_write_what_is_read_before),
        cmocka_unit_test(small_ops_first__casts_follow_what_they_alone_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
