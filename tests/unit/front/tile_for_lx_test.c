// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// exp(-x) - x of so many rows of 2,048: two results pass at once.
static loop_graph *begin(front_run *run, int64_t rows)
{
    spyre_view view = sizes_view(2, rows, 2048, 0);
    uint32_t x = front_case_input(run, view);
    uint32_t y = front_case_unary(run, "spyre.neg", x, view);
    uint32_t z = front_case_unary(run, "spyre.exp", y, view);
    front_case_output(run, front_case_binary(run, "spyre.sub", z, y, view));
    return front_case_before(run, 32, NULL);
}

static void require_tiles(const loop_graph *loops, uint32_t depth)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        assert_int_equal(loops->ops.items[i].tile_depth, depth);
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind == LOOP_LOCAL && buffer->output < 0) assert_true(buffer->in_lx);
    }
}

// LX has 51 MiB for buffers: two of 16 MiB fit, two of 64 MiB need tiles.
static void tile_for_lx__what_passes_fits(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = begin(&run, 4096);
    assert_int_equal(loops->tiles.count, 0);
    require_tiles(loops, 0);
    front_run_end(&run);
    run = front_run_begin();
    loops = begin(&run, 16384);
    assert_int_equal(loops->tiles.count, 1);
    require_tiles(loops, 1);
    front_run_end(&run);
}

static void tile_for_lx__not_where_it_is_off(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    run.settings.tile_for_lx = false;
    assert_int_equal(begin(&run, 16384)->tiles.count, 0);
    front_run_end(&run);
    run = front_run_begin();
    run.settings.lx_planning = false;
    assert_int_equal(begin(&run, 16384)->tiles.count, 0);
    front_run_end(&run);
}

// Sums along the rows go back into what passes: columns are cut.
static void tile_for_lx__sums_that_come_back(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 16384, 2048, 0), row = sizes_view(2, 1, 2048, 0);
    uint32_t x = front_case_input(&run, view);
    uint32_t y = front_case_unary(&run, "spyre.exp", x, view);
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 0};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = y},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
    uint32_t sum = front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, row);
    spyre_view all = view;
    all.stride[0] = 0;
    uint32_t wide = front_run_view(&run, sum, SPYRE_DTYPE_F16, all);
    uint32_t z = front_case_binary(&run, "spyre.sub", y, wide, view);
    front_case_output(&run, front_case_binary(&run, "spyre.mul", z, y, view));
    const loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_int_equal(loops->tiles.count, 1);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        assert_int_equal(op->tile_depth, 1);
        for (uint32_t v = 0; v < op->var_count; v++) assert_true(op->extent[v] != 2048);
    }
    front_run_end(&run);
}

// 8,209 is a prime: only tiles of one stick cut the vector in whole ones. Of so many each would
// cost more than what LX saves; and to look for them among the divisors of a length takes its time.
static void tile_for_lx__few_tiles_or_none(void **state)
{
    (void)state;
    static const int64_t sticks[] = {8192, 8209};
    for (uint32_t n = 0; n < 2; n++) {
        front_run run = front_run_begin();
        run.settings.dxp_lx_frac_avail = 0.998;
        spyre_view view = sizes_view(1, sticks[n] * 64, 0, 0);
        uint32_t x = front_case_input(&run, view);
        uint32_t y = front_case_unary(&run, "spyre.neg", x, view);
        uint32_t z = front_case_unary(&run, "spyre.exp", y, view);
        front_case_output(&run, front_case_binary(&run, "spyre.sub", z, y, view));
        assert_int_equal(front_case_before(&run, 32, NULL)->tiles.count, n == 0 ? 1 : 0);
        front_run_end(&run);
    }
}

static uint32_t count_reads_in_memory(const loop_graph *loops)
{
    uint32_t reads = 0;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k + 1 < loops->ops.items[i].operand_count; k++) {
            const uint32_t b = loops->ops.items[i].operand[k].buffer;
            reads += loops->buffers.items[b].kind == LOOP_INPUT;
        }
    return reads;
}

// An input that several ops of a loop read comes to LX once per tile.
static void tile_for_lx__tiles_are_read_once(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 16384, 2048, 0);
    uint32_t x = front_case_input(&run, view);
    uint32_t y = front_case_unary(&run, "spyre.exp", x, view);
    uint32_t z = front_case_binary(&run, "spyre.sub", y, x, view);
    front_case_output(&run, front_case_binary(&run, "spyre.mul", z, x, view));
    const loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_int_equal(loops->tiles.count, 1);
    require_tiles(loops, 1);
    assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), 1);
    assert_int_equal(count_reads_in_memory(loops), 1);
    front_run_end(&run);
}

// A copy that LX has no room for would cost what it is to save.
static void tile_for_lx__no_copies_in_memory(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 16384, 2048, 0);
    uint32_t x = front_case_input(&run, view);
    uint32_t y = front_case_unary(&run, "spyre.exp", x, view);
    front_case_output(&run, front_case_binary(&run, "spyre.sub", y, x, view));
    loop_graph *loops = front_case_before(&run, 32, "lx_planning");
    assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), 1);
    loops->settings.dxp_lx_frac_avail = 1;
    bool changed;
    assert_ok(pass_lx_planning(loops, &changed));
    assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), 0);
    assert_int_equal(count_reads_in_memory(loops), 2);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        for (uint32_t k = 0; k + 1 < loops->ops.items[i].operand_count; k++) {
            const loop_access *access = &loops->ops.items[i].operand[k];
            if (loops->buffers.items[access->buffer].kind == LOOP_INPUT)
                assert_true(access->tile_stride[0] > 0);
        }
    front_run_end(&run);
}

// x - max(x) of rows in two loops, the inner one of which is summed then: cut there, cores have the
// outer one in common.
static void tile_for_lx__cores_keep_their_part(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    const spyre_view view = sizes_view(3, 32, 512, 1024), part = sizes_view(3, 32, 1, 1024);
    const uint32_t x = front_run_input(&run, SPYRE_DTYPE_F32, 3, view.size, NULL);
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 2};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
    const uint32_t most =
        front_run_node(&run, "spyre.max", args, 3, SPYRE_DTYPE_F32, sizes_view(3, 32, 512, 1));
    spyre_view all = sizes_view(3, 32, 512, 1);
    all.size[2] = 1024;
    all.stride[2] = 0;
    const uint32_t wide = front_run_view(&run, most, SPYRE_DTYPE_F32, all);
    const spyre_arg both[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                              {.kind = SPYRE_ARG_VALUE, .of.value = wide}};
    args[0].of.value = front_run_node(&run, "spyre.sub", both, 2, SPYRE_DTYPE_F32, view);
    dim.of.integer = 1;
    front_case_output(&run, front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F32, part));
    const loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_int_equal(loops->tiles.count, 1);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loops->ops.items[i].tile_depth) assert_int_equal(loops->ops.items[i].extent[0], 32);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_for_lx__what_passes_fits),
        cmocka_unit_test(tile_for_lx__not_where_it_is_off),
        cmocka_unit_test(tile_for_lx__sums_that_come_back),
        cmocka_unit_test(tile_for_lx__few_tiles_or_none),
        cmocka_unit_test(tile_for_lx__tiles_are_read_once),
        cmocka_unit_test(tile_for_lx__no_copies_in_memory),
        cmocka_unit_test(tile_for_lx__cores_keep_their_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
