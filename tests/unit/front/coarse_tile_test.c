// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static void hint(front_run *run, uint32_t node, const char *tiles)
{
    assert_ok(spyre_graph_set_tiles(run->graph, node, tiles));
}

static uint32_t named_input(front_run *run, spyre_view view, const char *names)
{
    uint32_t value = front_case_input(run, view);
    assert_ok(spyre_graph_name_dims(run->graph, value, names));
    return value;
}

// (a + b) * c of [1024, 4096], all A,B: the example of coarse_tiling_loops.md, "Small Example".
static front_run example(const spyre_layout *layout)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 1024, 4096, 0);
    uint32_t in[3];
    for (uint32_t i = 0; i < 3; i++) {
        char name[8];
        spyre_tensor_type type = {SPYRE_DTYPE_F16, true, view};
        snprintf(name, sizeof name, "in%u", i);
        assert_ok(spyre_graph_add_input(run.graph, name, &type, layout ? &view : NULL, layout,
                                        &in[i]));
        run.input_count++;
        assert_ok(spyre_graph_name_dims(run.graph, in[i], "A,B"));
    }
    uint32_t y = front_case_binary(&run, "spyre.add", in[0], in[1], view);
    front_case_output(&run, front_case_binary(&run, "spyre.mul", y, in[2], view));
    hint(&run, 0, "3:A=2,7:B=4");
    hint(&run, 1, "3:A=2,7:B=4");
    return run;
}

static void compile(front_run *run, front_result *out)
{
    uint32_t node;
    front_options options = {.settings = run->settings};
    spyre_status status = front_compile(run->graph, &options, run->memory, &node, out);
    if (status) fail_msg("%s", spyre_status_message(status));
}

static void coarse_tile__example(void **state)
{
    (void)state;
    front_run run = example(NULL);
    run.settings.unroll_loops = false;
    front_result result;
    compile(&run, &result);
    const loop_graph *loops = result.loops;
    assert_int_equal(loops->tiles.count, 2);
    assert_int_equal(loops->tiles.items[0].count, 2);
    assert_int_equal(loops->tiles.items[1].count, 4);
    assert_int_equal(loops->ops.count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(front_case_loops(loops, i), "512 1024");
        assert_int_equal(loops->ops.items[i].tile_depth, 2);
        assert_int_equal(loop_shared_tiles(&loops->ops.items[0], &loops->ops.items[i]), 2);
    }
    // The intermediate is a tile at the bottom of LX, and nothing of it is in memory.
    const loop_op *add = &loops->ops.items[0];
    const loop_buffer *y = &loops->buffers.items[add->operand[2].buffer];
    assert_true(y->in_lx);
    assert_int_equal(y->memory_offset, 0);
    assert_int_equal(y->tile_depth, 2);
    assert_int_equal(y->bytes * loop_core_count(add), 512 * 1024 * 2);
    assert_int_equal(loops->pool_bytes, 0);
    front_run_end(&run);
}

// Bytes an iteration: for the default layout as the page's present text has them, for rows of whole
// sticks behind each other those of a dense host tensor.
static void coarse_tile__strides(void **state)
{
    (void)state;
    int64_t size[] = {1024, 64, 64}, map[] = {4096, 64, 1};
    spyre_layout rows = {.rank = 3, .format = SPYRE_FORMAT_SEN169_FP16};
    memcpy(rows.device_size, size, sizeof size);
    memcpy(rows.stride_map, map, sizeof map);
    struct {
        const spyre_layout *layout;
        int64_t outer, inner;
    } cases[] = {{NULL, 65536, 2097152}, {&rows, 4194304, 2048}};
    for (uint32_t c = 0; c < 2; c++) {
        front_run run = example(cases[c].layout);
        run.settings.unroll_loops = false;
        front_result result;
        compile(&run, &result);
        const bundle_step *add = &result.bundle->steps.items[0];
        for (uint32_t t = 0; t < 2; t++) {
            assert_int_equal(add->tensors[t].loop_stride[0], cases[c].outer);
            assert_int_equal(add->tensors[t].loop_stride[1], cases[c].inner);
            assert_int_equal(add->tensors[2].loop_stride[t], 0);
        }
        front_run_end(&run);
    }
}

static isa_program *program_of(front_run *run, const front_result *result)
{
    isa_program *program;
    back_options options = BACK_OPTIONS_INIT;
    assert_ok(back_compile(result->bundle, &options, run->memory, &program));
    return program;
}

// Unrolled, every tile has steps of its own; in loops, the program is as long for any count.
static void coarse_tile__loops_and_steps(void **state)
{
    (void)state;
    static const char *const tiles[] = {"1:A=2,2:B=4", "1:A=16,2:B=8"};
    uint32_t instructions[2][2];
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t unroll = 0; unroll < 2; unroll++) {
            front_run run = example(NULL);
            front_result result;
            hint(&run, 0, tiles[i]);
            hint(&run, 1, tiles[i]);
            run.settings.unroll_loops = unroll;
            compile(&run, &result);
            assert_int_equal(result.bundle->steps.count, !unroll ? 2 : i ? 256 : 16);
            const isa_program *program = program_of(&run, &result);
            assert_int_equal(program->kernels.count, result.bundle->steps.count);
            instructions[i][unroll] = program->code.count;
            front_run_end(&run);
        }
    }
    assert_int_equal(instructions[0][0], instructions[1][0]);
    assert_true(instructions[1][1] > 10 * instructions[0][1]);
}

// relu(x @ y) of [64, 256] and [256, 128], the product in loops over M and K, relu in that over M.
static front_run product(const char *tiles, const char *behind)
{
    front_run run = front_run_begin();
    uint32_t x = named_input(&run, sizes_view(2, 64, 256, 0), "M,K");
    uint32_t y = named_input(&run, sizes_view(2, 256, 128, 0), "K,N");
    spyre_view out = sizes_view(2, 64, 128, 0);
    uint32_t value = front_case_binary(&run, "spyre.batchmatmul", x, y, out);
    front_case_output(&run, front_case_unary(&run, "spyre.relufwd", value, out));
    hint(&run, 0, tiles);
    if (behind) hint(&run, 1, behind);
    return run;
}

// Fill and what follows stand in the outer loop, the partial product and its sum in the inner one.
static void coarse_tile__sums_of_tiles(void **state)
{
    (void)state;
    front_run run = product("1:M=8,2:K=4", "1:M=8");
    loop_graph *loops = front_case_before(&run, 32, "lx_planning");
    assert_string_equal(front_case_ops(loops), "identity/1 batchmatmul/2 add/2 relufwd/1");
    assert_string_equal(front_case_loops(loops, 1), "8 128 64");
    const loop_op *sum = &loops->ops.items[2];
    const loop_buffer *accumulated = &loops->buffers.items[sum->operand[2].buffer];
    assert_int_equal(sum->operand[0].buffer, sum->operand[2].buffer);
    assert_int_equal(accumulated->tile_depth, 1); // one tile of M, kept over the tiles of K
    front_run_end(&run);
}

// What leaves the outer loop is accumulated in a tile of its own, then copied.
static void coarse_tile__two_buffers(void **state)
{
    (void)state;
    front_run run = product("1:M=8,2:K=4", NULL);
    loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_string_equal(front_case_ops(loops),
                        "identity/1 batchmatmul/2 add/2 identity/1 relufwd/0");
    const loop_buffer *accumulated =
        &loops->buffers.items[loops->ops.items[2].operand[2].buffer];
    assert_int_equal(accumulated->tile_depth, 1);
    assert_true(accumulated->in_lx);
    const loop_buffer *whole = &loops->buffers.items[loops->ops.items[3].operand[1].buffer];
    assert_true(whole->walked);
    assert_int_equal(whole->tile_depth, 0);
    front_run_end(&run);
}

// The sum over all tiles is needed before the next op, so the loop ends there.
static void coarse_tile__a_whole_reduction_ends_the_loop(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 256, 0), row = sizes_view(2, 1, 256, 0);
    uint32_t x = named_input(&run, view, "M,K");
    spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 0};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
    uint32_t most = front_run_node(&run, "spyre.max", args, 3, SPYRE_DTYPE_F16, row);
    row.stride[0] = 0;
    front_case_output(&run, front_case_binary(&run, "spyre.sub", x, most, view));
    hint(&run, 0, "1:M=4");
    hint(&run, 1, "1:M=4");
    loop_graph *loops = front_case_before(&run, 32, "span_reduction");
    assert_string_equal(front_case_ops(loops), "identity/0 max/1 maximum/1 sub/1");
    assert_int_equal(loops->tiles.count, 2);
    assert_int_equal(loop_shared_tiles(&loops->ops.items[2], &loops->ops.items[3]), 0);
    front_run_end(&run);
}

// sum(exp(x - max(x))) along K: one loop; differences that are read besides take another. Where
// loops over rows stand outside, the sum is accumulated in a tile.
static void coarse_tile__sums_of_exponentials(void **state)
{
    (void)state;
#define PASS(d) "max/" d " maximum/" d " sub/" d " exp/" d " sub/" d " exp/" d \
                " sum/" d " mul/" d " add/" d " identity/" d
    static const struct {
        const char *tiles;
        bool gaps;
        const char *ops;
    } cases[] = {{"1:K=4", false, "identity/0 identity/0 " PASS("1")},
                 {"1:K=4", true, "identity/0 identity/0 " PASS("1") " sub/1 neg/1"},
                 {"1:M=4,2:K=4", false, "identity/1 identity/1 " PASS("2") " identity/1"}};
#undef PASS
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        front_run run = front_run_begin();
        spyre_view view = sizes_view(2, 64, 256, 0), row = sizes_view(2, 64, 1, 0);
        uint32_t x = named_input(&run, view, "M,K");
        spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 1};
        spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                            {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}},
                            {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
        uint32_t most = front_run_node(&run, "spyre.max", args, 3, SPYRE_DTYPE_F16, row);
        uint32_t gap = front_case_binary(&run, "spyre.sub", x, most, view);
        uint32_t power = front_case_unary(&run, "spyre.exp", gap, view);
        args[0].of.value = power;
        front_case_output(&run, front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, row));
        if (cases[i].gaps)
            front_case_output(&run, front_case_unary(&run, "spyre.neg", gap, view));
        for (uint32_t n = 0; n < run.graph->nodes.count; n++) hint(&run, n, cases[i].tiles);
        loop_graph *loops = front_case_before(&run, 32, "span_reduction");
        assert_string_equal(front_case_ops(loops), cases[i].ops);
        front_run_end(&run);
    }
}

// abs(exp(x)) of [64, 4096], abs in tiles.
static front_run walked(const char *tiles, bool unroll)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 4096, 0);
    uint32_t x = named_input(&run, view, "M,K");
    x = front_case_unary(&run, "spyre.exp", x, view);
    front_case_output(&run, front_case_unary(&run, "spyre.abs", x, view));
    hint(&run, 1, tiles);
    run.settings.unroll_loops = unroll;
    return run;
}

// What a loop walks is held in LX whole where the cores cut other dims of it than the loop, and
// where the bundle has the addresses as numbers.
static void coarse_tile__walked_buffers_live_in_lx(void **state)
{
    (void)state;
    static const struct {
        const char *tiles;
        bool unroll, published, in_lx;
    } cases[] = {{"1:M=4", true, false, true},
                 {"1:K=4", true, false, true},
                 {"1:M=4,2:K=2", true, false, true},
                 {"1:M=4,2:K=2", true, true, false},
                 {"1:M=4", false, false, false},
                 {"1:K=4", false, false, false}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        front_run run = walked(cases[i].tiles, cases[i].unroll);
        front_result result;
        run.settings.work_division = cases[i].published;
        compile(&run, &result);
        const loop_op *op = &result.loops->ops.items[1];
        const loop_buffer *whole = &result.loops->buffers.items[op->operand[0].buffer];
        assert_true(whole->walked);
        assert_int_equal(whole->tile_depth, 0);
        assert_int_equal(whole->in_lx, cases[i].in_lx);
        assert_int_equal(whole->why_in_memory == NULL, cases[i].in_lx);
        front_run_end(&run);
    }
}

// What an op of the scope needs from outside goes before the loop, what needs nothing of it behind.
static void coarse_tile__others_stand_aside(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 256, 0);
    uint32_t x = named_input(&run, view, "M,K"), y = front_case_input(&run, view);
    uint32_t a = front_case_unary(&run, "spyre.exp", x, view);
    uint32_t apart = front_case_unary(&run, "spyre.abs", y, view);
    uint32_t needed = front_case_unary(&run, "spyre.neg", y, view);
    front_case_output(&run, front_case_binary(&run, "spyre.add", a, needed, view));
    front_case_output(&run, apart);
    hint(&run, 0, "5:M=4");
    hint(&run, 3, "5:M=4");
    loop_graph *loops = front_case_before(&run, 32, "span_reduction");
    assert_string_equal(front_case_ops(loops), "neg/0 exp/1 add/1 abs/0");
    assert_int_equal(loops->tiles.count, 1);
    front_run_end(&run);
}

static void refused(front_run *run, const char *message)
{
    uint32_t node;
    front_result result;
    front_options options = {.settings = run->settings};
    spyre_status status = front_compile(run->graph, &options, run->memory, &node, &result);
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    assert_int_equal(node, SPYRE_NO_ID); // the host would not do what was asked either
    if (!strstr(spyre_status_message(status), message))
        fail_msg("%s", spyre_status_message(status));
    spyre_status_free(status);
    front_run_end(run);
}

static void coarse_tile__impossible_tiles_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tiles, *message;
    } cases[] = {
        {"1:M=3", "(model.py:1): tiles M=3 (scope 1): does not divide a loop of 64; the nearest "
                  "count is 2"},
        {"1:M=50", "does not divide a loop of 64; the nearest count is 64"},
        {"1:N=4", "does not divide a loop of 128 in whole sticks of 64; the nearest count is 2"},
        {"1:K=8", "does not divide a loop of 256 in whole sticks of 64; the nearest count is 4"},
        {"1:M=2,2:M=2,3:M=2,4:M=2,5:M=2", "more than 4 loops around an op"}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        front_run run = product(cases[i].tiles, NULL);
        refused(&run, cases[i].message);
    }
    front_run conflict = product("1:M=4", "1:M=8");
    refused(&conflict, "tiles M=8 (scope 1): another op has M=4 for the same scope");
}

static void coarse_tile__scopes_are_one_piece(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 256, 0);
    uint32_t x = named_input(&run, view, "M,K");
    for (uint32_t i = 0; i < 3; i++) x = front_case_unary(&run, "spyre.exp", x, view);
    front_case_output(&run, x);
    hint(&run, 0, "5:M=4");
    hint(&run, 2, "5:M=4");
    refused(&run, "scope 5 of tiles is not one piece: op 2");
}

static void coarse_tile__nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",      "M=2",     "1:M",         "1:M=",  "0:M=2",
                                        "1:M=0", "1:M=-2",  "2:M=2,1:K=2", "1:M=2,", "-1:M=2",
                                        "1:=2",  "1:M=2;2", "1:M=2,1:K=2"};
    front_run run = product("1:M=2", NULL);
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        spyre_status status = spyre_graph_set_tiles(run.graph, 0, texts[i]);
        assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
        spyre_status_free(status);
    }
    front_run_end(&run);
}

// Names alone, scopes of names that nothing moves along and single tiles change no byte.
static void coarse_tile__without_tiles_nothing_changes(void **state)
{
    (void)state;
    static const char *const texts[] = {NULL, "1:Q=4", "1:M=1"};
    uint8_t *first = NULL, *bytes;
    size_t first_count = 0, count;
    front_run runs[3];
    for (uint32_t i = 0; i < 3; i++) {
        front_result result;
        runs[i] = product("1:M=2", NULL);
        graph_node *node = &runs[i].graph->nodes.items[0];
        node->hint.tiles = 0;
        if (texts[i]) hint(&runs[i], 0, texts[i]);
        if (!texts[i])
            for (uint32_t k = 0; k < 2; k++) runs[i].graph->inputs.items[k].dims = 0;
        compile(&runs[i], &result);
        assert_ok(isa_encode(runs[i].memory, program_of(&runs[i], &result), &bytes, &count));
        if (i) {
            assert_int_equal(count, first_count);
            assert_memory_equal(bytes, first, count);
        }
        first = bytes;
        first_count = count;
    }
    for (uint32_t i = 0; i < 3; i++) front_run_end(&runs[i]);
}

// A name that nothing moves along is left out, and so is a single tile.
static void coarse_tile__without_effect(void **state)
{
    (void)state;
    static const char *const texts[] = {"1:Q=4", "1:M=1"};
    for (uint32_t i = 0; i < 2; i++) {
        front_run run = product(texts[i], NULL);
        loop_graph *loops = front_case_before(&run, 32, "coarse_tile");
        bool changed = true;
        assert_ok(pass_coarse_tile(loops, &changed));
        assert_false(changed);
        assert_int_equal(loops->tiles.count, 0);
        front_run_end(&run);
    }
}

// A dim that holds two, named "M:64*K:256", is two loops where a view parts it.
static void coarse_tile__names_of_flat_dims(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 64, 256, 0);
    uint32_t x = named_input(&run, sizes_view(1, 64 * 256, 0, 0), "M:64*K:256");
    x = front_run_view(&run, x, SPYRE_DTYPE_F16, view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    hint(&run, 1, "1:M=8,2:K=4");
    loop_graph *loops = front_case_before(&run, 32, "span_reduction");
    assert_string_equal(front_case_ops(loops), "exp/2");
    assert_string_equal(front_case_loops(loops, 0), "8 64");
    front_run_end(&run);
}

// So is one that nothing parts, and what follows from it.
static void coarse_tile__loops_over_flat_dims(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(1, 64 * 256, 0, 0);
    uint32_t x = named_input(&run, view, "M:64*K:256");
    x = front_case_unary(&run, "spyre.exp", x, view);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", x, view));
    hint(&run, 0, "1:M=8,2:K=4");
    hint(&run, 1, "1:M=8,2:K=4");
    loop_graph *loops = front_case_before(&run, 32, "span_reduction");
    assert_string_equal(front_case_ops(loops), "exp/2 neg/2");
    assert_string_equal(front_case_loops(loops, 1), "8 64");
    assert_int_equal(loops->tiles.count, 2);
    front_run_end(&run);
}

// The text form keeps scopes and names of results.
static void coarse_tile__in_the_text(void **state)
{
    (void)state;
    front_run run = product("1:M=8,2:K=4", NULL);
    assert_ok(spyre_graph_name_result(run.graph, 1, "M,"));
    char *printed = front_case_text(run.graph);
    assert_non_null(strstr(printed, " tiles \"1:M=8,2:K=4\"\n"));
    assert_non_null(strstr(printed, " dims \"M,\"\n"));
    spyre_string_free(printed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coarse_tile__example),
        cmocka_unit_test(coarse_tile__strides),
        cmocka_unit_test(coarse_tile__loops_and_steps),
        cmocka_unit_test(coarse_tile__sums_of_tiles),
        cmocka_unit_test(coarse_tile__two_buffers),
        cmocka_unit_test(coarse_tile__a_whole_reduction_ends_the_loop),
        cmocka_unit_test(coarse_tile__sums_of_exponentials),
        cmocka_unit_test(coarse_tile__walked_buffers_live_in_lx),
        cmocka_unit_test(coarse_tile__others_stand_aside),
        cmocka_unit_test(coarse_tile__impossible_tiles_are_refused),
        cmocka_unit_test(coarse_tile__scopes_are_one_piece),
        cmocka_unit_test(coarse_tile__nonsense_is_refused),
        cmocka_unit_test(coarse_tile__without_effect),
        cmocka_unit_test(coarse_tile__without_tiles_nothing_changes),
        cmocka_unit_test(coarse_tile__names_of_flat_dims),
        cmocka_unit_test(coarse_tile__loops_over_flat_dims),
        cmocka_unit_test(coarse_tile__in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
