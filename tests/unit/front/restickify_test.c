// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static const spyre_view turned = {2, {70, 50}, {1, 70}, 0};

static void restickify__one_restickify_turns_a_matrix(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view out = sizes_view(2, 70, 50, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 50, 70, 0));
    uint32_t y = front_case_input(&run, out);
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    front_case_output(&run, front_case_binary(&run, "spyre.add", view, y, out));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_RESTICKIFY), 1);
    assert_int_equal(loops->ops.count, 2);
    front_run_end(&run);
}

// Nothing needs a restickify as long as every op may keep its stick where the operand has it.
static void restickify__a_copy_keeps_the_stick(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view out = sizes_view(2, 70, 50, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 50, 70, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", view, out));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_RESTICKIFY), 0);
    front_run_end(&run);
}

// A copy that the graph returns has the default layout, and changes the stick itself.
static void restickify__a_returned_copy_turns(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view out = sizes_view(2, 70, 50, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 50, 70, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    uint32_t copy = front_case_unary(&run, "spyre.identity", view, out);
    front_case_output(&run, copy);
    front_case_output(&run, front_case_unary(&run, "spyre.identity", x, sizes_view(2, 50, 70, 0)));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(loops->ops.count, 2);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_RESTICKIFY);
    assert_int_equal(loops->ops.items[1].op, OPFUNC_IDENTITY);
    const loop_buffer *result = &loops->buffers.items[loop_output_of(&loops->ops.items[0])->buffer];
    assert_int_equal(result->dim[result->stick].stride, 1);
    front_run_end(&run);
}

static uint32_t count_sparse(const loop_graph *loops)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        count += buffer->dim_count == 2 && buffer->stick == LOOP_NO_DIM;
    }
    return count;
}

// Parts that begin inside of a stick whatever the stick is, as a stencil's are: dense copies, with
// one of the whole turned for all of them.
static void restickify__inner_parts_are_cut_dim_by_dim(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t x = front_case_input(&run, sizes_view(2, 200, 200, 0));
    uint32_t sum = SPYRE_NO_ID;
    for (int64_t at = 0; at < 3; at++) {
        spyre_view part = {2, {198, 198}, {200, 1}, 200 * at + 2 - at};
        uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, part);
        sum = at == 0 ? view
                      : front_case_binary(&run, "spyre.add", sum, view, sizes_view(2, 198, 198, 0));
    }
    front_case_output(&run, sum);
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(count_sparse(loops), 0);
    assert_in_range(front_case_count(loops, OPFUNC_RESTICKIFY), 1, 4);
    front_run_end(&run);
}

// Heads of 32 that are returned contiguous.
static void restickify__a_returned_copy_of_heads_is_one_step(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view heads = {3, {2, 10, 32}, {32, 64, 1}, 0};
    uint32_t x = front_case_input(&run, sizes_view(2, 10, 64, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, heads);
    front_case_output(&run,
                      front_case_unary(&run, "spyre.identity", view, sizes_view(3, 2, 10, 32)));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(loops->ops.count, 1);
    assert_int_equal(front_case_count(loops, OPFUNC_RESTICKIFY), 1);
    front_run_end(&run);
}

// What repeats elements is no change of a stick.
static void restickify__a_returned_copy_of_repeats_stays_one(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view repeats = {2, {70, 50}, {1, 0}, 0};
    uint32_t x = front_case_input(&run, sizes_view(1, 70, 0, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, repeats);
    front_case_output(&run,
                      front_case_unary(&run, "spyre.identity", view, sizes_view(2, 70, 50, 0)));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    const loop_op *last = &loops->ops.items[loops->ops.count - 1];
    assert_int_equal(last->op, OPFUNC_IDENTITY);
    front_run_end(&run);
}

// Restickify ops of the sum of [heads, 10, lanes] and a view of [10, heads * lanes].
static uint32_t copies_of_heads(int64_t heads, int64_t lanes)
{
    front_run run = front_run_begin();
    spyre_view cut = {3, {heads, 10, lanes}, {lanes, heads * lanes, 1}, 0};
    spyre_view out = sizes_view(3, heads, 10, lanes);
    uint32_t x = front_case_input(&run, sizes_view(2, 10, heads * lanes, 0));
    uint32_t y = front_case_input(&run, out);
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, cut);
    front_case_output(&run, front_case_binary(&run, "spyre.add", view, y, out));
    uint32_t copies = front_case_count(front_case_before(&run, 1, NULL), OPFUNC_RESTICKIFY);
    front_run_end(&run);
    return copies;
}

// Heads of 32 start inside sticks of 64, of which they are equal parts; heads of 48 are not.
static void restickify__parts_of_a_stick_that_are_not_equal_take_two_steps(void **state)
{
    (void)state;
    assert_int_equal(copies_of_heads(2, 32), 1);
    assert_int_equal(copies_of_heads(4, 48), 2);
}

// x[40, 130 + 65 of 4096]: of a large tensor only the rows and sticks that are read are copied.
static void restickify__a_small_part_is_copied_alone(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view part = {2, {2, 65}, {4096, 1}, 4096 * 40 + 130}, out = sizes_view(2, 2, 65, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 512, 4096, 0));
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, part);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", view, out));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_RESTICKIFY);
    assert_string_equal(front_case_loops(loops, 0), "2 67");
    assert_int_equal(loops->ops.items[0].operand[0].offset, 4096 * 40 + 128);
    front_run_end(&run);
}

// Column 70 of a matrix of 128 columns that is stored as one dim.
static void restickify__what_strides_leave_out_is_not_copied(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view column = {1, {512}, {128}, 70}, out = sizes_view(1, 512, 0, 0);
    uint32_t x = front_case_input(&run, sizes_view(1, 512 * 128, 0, 0));
    uint32_t y = front_case_input(&run, out);
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, column);
    front_case_output(&run, front_case_binary(&run, "spyre.add", view, y, out));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_RESTICKIFY);
    assert_string_equal(front_case_loops(loops, 0), "512 7");
    assert_int_equal(loops->ops.items[0].operand[0].offset, 64);
    front_run_end(&run);
}

static void restickify__equal_ones_are_shared(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view out = sizes_view(2, 70, 50, 0);
    uint32_t x = front_case_input(&run, sizes_view(2, 50, 70, 0));
    uint32_t y = front_case_input(&run, out);
    uint32_t view = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    front_case_output(&run, front_case_binary(&run, "spyre.add", view, y, out));
    front_case_output(&run, front_case_binary(&run, "spyre.mul", view, y, out));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_RESTICKIFY), 1);
    assert_int_equal(loops->ops.count, 3);
    front_run_end(&run);
}

static loop_graph *gather_turned(front_run *run, int64_t count)
{
    uint32_t x = front_case_input(run, sizes_view(2, 50, 70, 0));
    uint32_t index = front_run_input(run, SPYRE_DTYPE_I64, 1, &count, NULL);
    uint32_t table = front_run_view(run, x, SPYRE_DTYPE_F16, turned);
    spyre_view sizes = sizes_view(2, count, 50, 0);
    front_case_output(run, front_case_binary(run, "spyre.gather", table, index, sizes));
    return front_case_before(run, 1, NULL);
}

// The rows of a turned table lie along its stick: the copy takes all of them. Few are read element
// by element where they are.
static void restickify__a_turned_table_is_copied_whole(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = gather_turned(&run, 400);
    assert_int_equal(loops->ops.count, 2);
    assert_int_equal(loops->ops.items[0].op, OPFUNC_RESTICKIFY);
    assert_string_equal(front_case_loops(loops, 0), "50 70");
    front_run_end(&run);
    run = front_run_begin();
    assert_int_equal(gather_turned(&run, 4)->ops.count, 1);
    front_run_end(&run);
}

// a[3, 7, 15] times rows 10 to 24 of -b[3, 25, 64]: whole sticks of a's columns would read 10 rows
// behind the last ones.
static void restickify__padding_stays_in_the_buffer(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view rows = {3, {3, 15, 64}, {1600, 64, 1}, 640};
    uint32_t a = front_case_input(&run, sizes_view(3, 3, 7, 15));
    uint32_t b = front_case_input(&run, sizes_view(3, 3, 25, 64));
    uint32_t n = front_case_unary(&run, "spyre.neg", b, sizes_view(3, 3, 25, 64));
    uint32_t part = front_run_view(&run, n, SPYRE_DTYPE_F16, rows);
    front_case_output(
        &run, front_case_binary(&run, "spyre.batchmatmul", a, part, sizes_view(3, 3, 7, 64)));
    front_result result;
    front_options options = {.settings = spyre_settings_default()};
    uint32_t node;
    assert_ok(front_compile(run.graph, &options, run.memory, &node, &result));
    assert_int_equal(front_case_count(result.loops, OPFUNC_RESTICKIFY), 1);
    front_run_end(&run);
}

// b0 is read twice from one element on: by an op that takes a region, with b0's strides, and by one
// that takes a piece, which is dense. Two copies.
static const char region_and_piece[] =
    "after build\n"
    "set sencores=8\n"
    "buffer b0 input float32 IEEE_FP32 dims() tensor(1:1) layout(sparse)  // x\n"
    "buffer b1 local float32 IEEE_FP32 dims(3:1 4:3 16:12) tensor(3:1 4:3 16:12)  // a\n"
    "buffer b2 local float32 IEEE_FP32 dims(16:1 4:16) tensor(4:16 16:1) output(0)  // y\n"
    "op 0 identity for(c0<3, c1<4, c2<8) node(0)  // a, model.py:1\n"
    "    b1[0 + 1*c0 + 3*c1 + 12*c2] = b0[0]\n"
    "op 1 identity for(c0<3, c1<4, c2<8) node(0)  // a, model.py:1\n"
    "    b1[96 + 1*c0 + 3*c1 + 12*c2] = b0[0]\n"
    "op 2 identity for(c0<3, c1<16) node(1)  // y, model.py:2\n"
    "    b2[0 + 16*c0 + 1*c1] = b1[9 + 1*c0 + 12*c1]\n"
    "op 3 identity for(c0<16) node(1)  // y, model.py:2\n"
    "    b2[48 + 1*c0] = b1[11 + 12*c0]\n"
    "return b2[0] 4:16 16:1\n";

static void restickify__a_region_and_a_piece_are_two_copies(void **state)
{
    (void)state;
    arena *memory = arena_create();
    loop_graph *loops;
    front_result result;
    const front_options options = {0};
    assert_ok(loop_parse(region_and_piece, "graph", NULL, memory, &loops));
    assert_ok(front_continue(loops, &options, &result));
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restickify__one_restickify_turns_a_matrix),
        cmocka_unit_test(restickify__a_copy_keeps_the_stick),
        cmocka_unit_test(restickify__a_returned_copy_turns),
        cmocka_unit_test(restickify__inner_parts_are_cut_dim_by_dim),
        cmocka_unit_test(restickify__a_returned_copy_of_heads_is_one_step),
        cmocka_unit_test(restickify__a_returned_copy_of_repeats_stays_one),
        cmocka_unit_test(restickify__parts_of_a_stick_that_are_not_equal_take_two_steps),
        cmocka_unit_test(restickify__a_small_part_is_copied_alone),
        cmocka_unit_test(restickify__what_strides_leave_out_is_not_copied),
        cmocka_unit_test(restickify__equal_ones_are_shared),
        cmocka_unit_test(restickify__padding_stays_in_the_buffer),
        cmocka_unit_test(restickify__a_turned_table_is_copied_whole),
        cmocka_unit_test(restickify__a_region_and_a_piece_are_two_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
