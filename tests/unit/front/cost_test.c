// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <math.h>

#include "front/cost/cost.h"
#include "front/explain/cost_table.h"
#include "isa/constants.h"
#include "support/front_case.h"

static void assert_near(double got, double want)
{
    if (!(got > want * (1 - 1e-9) - 1e-12 && got < want * (1 + 1e-9) + 1e-12)) {
        print_error("%.12g, not %.12g\n", got, want);
        fail();
    }
}

static cost cost_at(const loop_graph *loops, uint32_t index, uint32_t resident)
{
    const loop_op *op = &loops->ops.items[index];
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_get(op);
    return cost_of(op, &basis, &d, resident);
}

// neg of [1024, 2048]: 4 MiB in, 4 MiB out; half of it when the result stays in LX.
static void cost__copies(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 1024, 2048, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    double bytes = 1024 * 2048 * 2;
    cost both = cost_at(loops, 0, 0), half = cost_at(loops, 0, 2), none = cost_at(loops, 0, 3);
    assert_near(both.memory_us, 2 * bytes / MEMORY_BANDWIDTH + bytes * MEMORY_TURNAROUND);
    double sfp = bytes / 128 / (32 * VECTOR_STICKS * CLOCK);
    // Two tiles a core: the store of the first one goes on longer than the second is computed.
    assert_near(both.us, both.memory_us);
    assert_near(half.us, half.memory_us + sfp / 2);
    assert_near(half.memory_us, bytes / MEMORY_BANDWIDTH);
    assert_near(none.memory_us, 0);
    assert_near(none.us, sfp);
    front_run_end(&run);
}

// x * x reads x once, x * y both.
static void cost__reads_an_input_once(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 1024, 2048, 0);
    uint32_t x = front_case_input(&run, view), y = front_case_input(&run, view);
    front_case_output(&run, front_case_binary(&run, "spyre.mul", x, x, view));
    front_case_output(&run, front_case_binary(&run, "spyre.mul", x, y, view));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    double bytes = 1024 * 2048 * 2;
    assert_near(cost_at(loops, 0, 0).read_bytes, bytes);
    assert_near(cost_at(loops, 1, 0).read_bytes, 2 * bytes);
    front_run_end(&run);
}

// A batch between the sticks: every product finds single sticks, unless each core has a product.
static void cost__runs_of_products(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(3, 32, 256, 64);
    uint32_t x = front_case_input(&run, view);
    uint32_t y = front_case_input(&run, sizes_view(3, 32, 64, 256));
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y,
                                              sizes_view(3, 32, 256, 256)));
    loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
    const loop_op *op = &loops->ops.items[0];
    cost_basis basis = cost_basis_of(loops, op);
    division batches = division_whole(), rows = division_whole();
    for (uint32_t v = 0; v < op->var_count; v++) {
        bool batch = op->operand[0].stride[v] && op->operand[1].stride[v] && op->extent[v] == 32;
        bool row = op->operand[0].stride[v] && !op->operand[1].stride[v];
        if (batch && !loop_var_is_reduced(op, v)) batches.split[v] = 32;
        if (row) rows.split[v] = 32;
    }
    assert_int_equal(division_cores(op, &batches), 32);
    assert_int_equal(division_cores(op, &rows), 32);
    cost a = cost_of(op, &basis, &batches, 0), b = cost_of(op, &basis, &rows, 0);
    double runs = (a.read_bytes + a.written_bytes) / 128 * SHORT_RUN;
    assert_near(b.memory_us - a.memory_us, runs);
    front_run_end(&run);
}

static void cost__is_told_to_callers(void **state)
{
    (void)state;
    spyre_op_cost told;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 1024, 2048, 0);
    uint32_t x = front_case_input(&run, view), y = front_case_unary(&run, "spyre.exp", x, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", y, view));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_ok(spyre_loops_op_cost(loops, 0, &told));
    cost c = cost_as_planned(loops, &loops->ops.items[0]);
    assert_true(told.us == c.us && told.memory_us == c.memory_us);
    assert_string_equal(told.opfunc, "exp");
    assert_int_equal(told.executions, 1);
    assert_int_equal(told.memory_bytes + told.lx_bytes, 2 * 1024 * 2048 * 2);
    assert_int_equal(told.reread_bytes, 0);
    assert_error(spyre_loops_op_cost(loops, 2, &told), SPYRE_INVALID_ARGUMENT, "op 2 of 2");
    loops->stage = 1;
    assert_error(spyre_loops_op_cost(loops, 0, &told), SPYRE_INVALID_ARGUMENT,
                 "no cost before layouts");
    front_run_end(&run);
}

static uint8_t var_of_extent(const loop_op *op, int64_t extent)
{
    for (uint8_t v = 0; v < op->var_count; v++)
        if (op->extent[v] == extent) return v;
    return LOOP_NO_DIM;
}

static double memory_us(const loop_graph *loops, uint8_t v, int32_t slices)
{
    const loop_op *op = &loops->ops.items[0];
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_whole();
    d.split[v] = slices;
    return cost_of(op, &basis, &d, 0).memory_us;
}

// Columns of [1024, 2048] are sticks 128 KiB apart: cores that have one each read slower than those
// that have rows side by side.
static void cost__reads_far_apart(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 0};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE,
                         .of.value = front_case_input(&run, sizes_view(2, 1024, 2048, 0))},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}}};
    front_case_output(&run, front_run_node(&run, "spyre.max", args, 2, SPYRE_DTYPE_F16,
                                           sizes_view(1, 2048, 0, 0)));
    loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
    const loop_op *op = &loops->ops.items[0];
    double read = 1024 * 2048 * 2 / MEMORY_BANDWIDTH, written = 2048 * 2 / MEMORY_BANDWIDTH;
    double rate = SPREAD_BANDWIDTH + SPREAD_AMPLITUDE * exp(-1024 * 128 / SPREAD_DISTANCE);
    assert_near(memory_us(loops, var_of_extent(op, 2048), 32),
                read * MEMORY_BANDWIDTH / rate + written);
    assert_near(memory_us(loops, var_of_extent(op, 1024), 32),
                read + written + 2048 * 2 * MEMORY_TURNAROUND);
    front_run_end(&run);
}

// [512, 8, 1024] to [8, 512, 1024]: a tile of all 8 planes and all sticks has 4 rows, which lie
// side by side in what is read. A core with one stick of each row has them all.
static void cost__runs_of_copies(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(3, 512, 8, 1024));
    spyre_view swapped = sizes_view(3, 8, 512, 1024);
    swapped.stride[0] = 1024, swapped.stride[1] = 8 * 1024;
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, swapped);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", view, sizes_view(3, 8, 512, 1024)));
    loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
    const loop_op *op = &loops->ops.items[0];
    double bytes = 512 * 8 * 1024 * 2;
    double whole = 2 * bytes / MEMORY_BANDWIDTH + bytes * MEMORY_TURNAROUND;
    assert_near(memory_us(loops, var_of_extent(op, 1024), 16), whole);
    assert_near(memory_us(loops, var_of_extent(op, 512), 32), whole + bytes / 512 * SHORT_RUN);
    front_run_end(&run);
}

// A broadcast operand is read once; one element a stick costs the stick.
static void cost__counts_whole_sticks(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 96, 100, 0);
    uint32_t x = front_case_input(&run, view);
    uint32_t row = front_case_input(&run, sizes_view(1, 100, 0, 0));
    uint32_t sum = front_case_binary(&run, "spyre.add", x, row, view);
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 1};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = sum},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}}};
    front_case_output(&run, front_run_node(&run, "spyre.max", args, 2, SPYRE_DTYPE_F16,
                                           sizes_view(1, 96, 0, 0)));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    cost add = cost_at(loops, 0, 0), max = cost_at(loops, 1, 0);
    assert_near(add.read_bytes, 96 * 2 * 128 + 2 * 128);
    assert_near(add.written_bytes, 96 * 2 * 128);
    assert_near(max.read_bytes, 96 * 2 * 128);
    assert_near(max.written_bytes, 96 * 128);
    front_run_end(&run);
}

// 64 rows a core fill the PT, 16 do not; slices of K pay for the ring.
static void cost__products(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 512, 1024, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 1024, 256, 0));
    front_case_output(
        &run, front_case_binary(&run, "spyre.batchmatmul", x, y, sizes_view(2, 512, 256, 0)));
    loop_graph *loops = front_case_before(&run, 32, "span_reduction");
    loop_op *op = &loops->ops.items[0];
    uint8_t row = LOOP_NO_DIM, sum = LOOP_NO_DIM;
    for (uint8_t v = 0; v < op->var_count; v++)
        *(loop_var_is_reduced(op, v) ? &sum : v == op->stick ? &(uint8_t){0} : &row) = v;
    double macs = 512.0 * 1024 * 256;
    op->split[row] = 8;
    assert_near(cost_at(loops, 0, 0).compute_us, macs / (8 * MATMUL_RATE));
    op->split[row] = 32;
    assert_near(cost_at(loops, 0, 0).compute_us,
                macs / (32 * MATMUL_RATE * 0.61557220667245816)); // (16 / 64) ^ 0.35
    op->split[row] = 8;
    op->split[sum] = 4;
    cost cut = cost_at(loops, 0, 0);
    assert_near(cut.compute_us, macs / (32 * MATMUL_RATE));
    assert_near(cut.ring_us, 3 * (64 * 256 * 4) / (128 * CLOCK));
    front_run_end(&run);
}

// 512 rows by 448 columns a core: tiles of more LX hand A over less often.
static void cost__tiles_have_the_share_of_lx_that_is_set(void **state)
{
    (void)state;
    double read[2];
    for (uint32_t i = 0; i < 2; i++) {
        front_run run = front_run_begin();
        run.settings.dxp_lx_frac_avail = i ? 0.4 : 0.2;
        uint32_t x = front_case_input(&run, sizes_view(2, 512, 4096, 0));
        uint32_t y = front_case_input(&run, sizes_view(2, 4096, 14336, 0));
        front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y,
                                                  sizes_view(2, 512, 14336, 0)));
        loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
        loop_op *op = &loops->ops.items[0];
        op->split[var_of_extent(op, 14336)] = 32;
        read[i] = cost_at(loops, 0, 0).read_bytes;
        front_run_end(&run);
    }
    double a = 512 * 4096 * 2, b = 4096.0 * 14336 * 2;
    assert_near(read[0], 7 * a + b); // a stick of columns each
    assert_near(read[1], 4 * a + b);
}

// 512 by 512 by 2048 on 32 cores of a stick of columns each: A and B pass by along k in eight
// tiles, because a B that stays is loaded while nothing else goes on; and so are results stored.
static void cost__what_a_product_waits_for(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 512, 512, 0));
    uint32_t y = front_case_input(&run, sizes_view(2, 512, 2048, 0));
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x, y,
                                              sizes_view(2, 512, 2048, 0)));
    loop_graph *loops = front_case_before(&run, 32, "hinted_divisions");
    loops->ops.items[0].split[var_of_extent(&loops->ops.items[0], 2048)] = 32;
    double b_us = 2.0 * 512 * 2048 / MEMORY_BANDWIDTH, a_us = b_us / 4;
    cost stored = cost_at(loops, 0, 0), kept = cost_at(loops, 0, 4);
    assert_near(kept.us, a_us + b_us + kept.compute_us / 8);
    assert_near(stored.us - kept.us, b_us + 2.0 * 512 * 2048 * MEMORY_TURNAROUND);
    front_run_end(&run);
}

static void cost__table_has_a_line_an_op(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 128, 0);
    uint32_t x = front_case_unary(&run, "spyre.neg", front_case_input(&run, view), view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    text table = {0};
    assert_ok(cost_table_print(loops, &table));
    assert_non_null(strstr(text_string(&table), " neg (model.py:1)\n"));
    assert_non_null(strstr(text_string(&table), " exp (model.py:1)\n"));
    assert_non_null(strstr(text_string(&table), " c0/32 "));
    assert_non_null(strstr(text_string(&table), "1 of 1 reads divide"));
    text_free(&table);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost__copies),
        cmocka_unit_test(cost__reads_an_input_once),
        cmocka_unit_test(cost__is_told_to_callers),
        cmocka_unit_test(cost__runs_of_products),
        cmocka_unit_test(cost__reads_far_apart),
        cmocka_unit_test(cost__runs_of_copies),
        cmocka_unit_test(cost__counts_whole_sticks),
        cmocka_unit_test(cost__products),
        cmocka_unit_test(cost__tiles_have_the_share_of_lx_that_is_set),
        cmocka_unit_test(cost__what_a_product_waits_for),
        cmocka_unit_test(cost__table_has_a_line_an_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
