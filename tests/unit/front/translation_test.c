// SPDX-License-Identifier: Apache-2.0
//
// Translation validation finds passes that are wrong on purpose, and finds nothing in ours.
#include "unit/check.h"

#include "front/check/evaluate.h"
#include "front/check/shrink_sizes.h"
#include "front/check/translation.h"
#include "support/front_case.h"
#include "support/random_op.h"
#include "support/rounds.h"

// --- Ours

static void translation__our_passes_change_nothing(void **state)
{
    (void)state;
    spyre_settings settings = spyre_settings_default();
    uint32_t compiled = 0, graphs = test_rounds(50);
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        random_graph *g = random_graph_begin(seed);
        random_input(g, SPYRE_DTYPE_F16, random_sizes(g));
        for (uint32_t i = 0; i < 6; i++) random_step(g);
        front_case_output(&g->run, g->value[g->count - 1].id);
        settings.work_division = seed % 2;
        settings.uneven_splits = seed % 4 == 0;
        front_options options = {.settings = settings};
        front_result result;
        uint32_t node;
        spyre_status status = front_compile(g->run.graph, &options, g->run.memory, &node, &result);
        compiled += !status;
        if (!status)
            status = translation_validate(g->run.graph, &settings, front_passes, FRONT_PASS_COUNT,
                                          front_emit);
        if (spyre_status_code(status) == SPYRE_INTERNAL)
            fail_msg("seed %llu: %s", (unsigned long long)seed, spyre_status_message(status));
        spyre_status_free(status);
        random_graph_end(g);
    }
    assert_true(compiled > graphs * 3 / 4);
}

// --- Wrong ones

// exp(x) - abs(x) of x [rows, columns]; two intermediates live at one time.
static void make_graph(front_run *run, int64_t rows, int64_t columns)
{
    spyre_view view = sizes_view(2, rows, columns, 0);
    uint32_t x = front_case_input(run, view);
    uint32_t a = front_case_unary(run, "spyre.abs", x, view);
    uint32_t n = front_case_unary(run, "spyre.exp", x, view);
    front_case_output(run, front_case_binary(run, "spyre.sub", n, a, view));
}

static loop_op *find_sub(loop_graph *loops)
{
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (loops->ops.items[i].op == OPFUNC_SUB) return &loops->ops.items[i];
    fail_msg("no sub");
    return NULL;
}

static spyre_status swaps_operands(loop_graph *loops, bool *out_changed)
{
    loop_op *op = find_sub(loops);
    loop_access first = op->operand[0];
    op->operand[0] = op->operand[1];
    op->operand[1] = first;
    *out_changed = true;
    return NULL;
}

// Right, and then one operand stays in its first row.
static spyre_status mistakes_strides(loop_graph *loops, bool *out_changed)
{
    TRY(pass_normalize_loops(loops, out_changed));
    find_sub(loops)->operand[1].stride[0] = 0;
    *out_changed = true;
    return NULL;
}

static void put_together(loop_graph *loops)
{
    const loop_op *op = find_sub(loops);
    loop_buffer *a = &loops->buffers.items[op->operand[0].buffer];
    loop_buffer *b = &loops->buffers.items[op->operand[1].buffer];
    a->memory_offset = b->memory_offset;
}

static spyre_status overlaps_in_lx(loop_graph *loops, bool *out_changed)
{
    TRY(pass_lx_planning(loops, out_changed));
    put_together(loops);
    return NULL;
}

static spyre_status overlaps_in_pool(loop_graph *loops, bool *out_changed)
{
    TRY(pass_memory_planning(loops, out_changed));
    put_together(loops);
    return NULL;
}

// The input does not lie as the graph says.
static spyre_status mistakes_layouts(loop_graph *loops, bool *out_changed)
{
    TRY(pass_output_layouts(loops, out_changed));
    loop_buffer *x = &loops->buffers.items[0];
    assert_int_equal(x->kind, LOOP_INPUT);
    x->order[0] = 0;
    x->order[1] = 1;
    *out_changed = true;
    return NULL;
}

static spyre_status mistakes_emission(loop_graph *loops, front_result *out_result)
{
    TRY(front_emit(loops, out_result));
    bundle_step *step = &out_result->bundle->steps.items[out_result->bundle->steps.count - 1];
    step->tensors[0].start = step->tensors[1].start;
    step->tensors[0].core_offset = step->tensors[1].core_offset;
    return NULL;
}

static front_emitter emitter = front_emit;

static spyre_status validate_with(const char *name, front_pass wrong, int64_t rows, bool lx)
{
    front_pass_row passes[FRONT_PASS_COUNT];
    front_run run = front_run_begin();
    make_graph(&run, rows, 128);
    for (uint32_t i = 0; i < FRONT_PASS_COUNT; i++) {
        passes[i] = front_passes[i];
        if (strcmp(passes[i].name, name) == 0) passes[i].run = wrong;
    }
    run.settings.lx_planning = lx;
    spyre_status status =
        translation_validate(run.graph, &run.settings, passes, FRONT_PASS_COUNT, emitter);
    front_run_end(&run);
    return status;
}

static void check_culprit(const char *name, front_pass wrong, bool lx, const char *message)
{
    spyre_status status = validate_with(name, wrong, 8, lx);
    assert_int_equal(spyre_status_code(status), SPYRE_INTERNAL);
    if (!strstr(spyre_status_message(status), message))
        fail_msg("%s", spyre_status_message(status));
    spyre_status_free(status);
}

static void translation__names_the_culprit(void **state)
{
    (void)state;
    check_culprit("dedup_constants", swaps_operands, true,
                  "translation: pass dedup_constants changed output 0");
    check_culprit("joint_work_division", swaps_operands, true,
                  "translation: pass joint_work_division changed output 0");
    check_culprit("normalize_loops", mistakes_strides, true,
                  "translation: pass normalize_loops changed output 0");
    check_culprit("lx_planning", overlaps_in_lx, true,
                  "translation: pass lx_planning changed output 0");
}

// What all bundles share is told apart by taking it out.
static void translation__names_the_stage(void **state)
{
    (void)state;
    check_culprit("memory_planning", overlaps_in_pool, false,
                  "translation: places in memory (all passes agree) changed output 0");
    check_culprit("output_layouts", mistakes_layouts, false,
                  "translation: layouts (all passes agree) changed output 0");
    emitter = mistakes_emission;
    check_culprit("", NULL, false, "translation: emission (all passes agree) changed output 0");
    emitter = front_emit;
}

static void translation__large_tensors_are_shrunk(void **state)
{
    (void)state;
    spyre_status status = validate_with("deadcode", swaps_operands, 1 << 20, true);
    assert_int_equal(spyre_status_code(status), SPYRE_INTERNAL);
    assert_non_null(strstr(spyre_status_message(status), "pass deadcode changed"));
    spyre_status_free(status);
}

// Right, and then the second tile is read again and again.
static spyre_status mistakes_tiles(loop_graph *loops, bool *out_changed)
{
    TRY(pass_coarse_tile(loops, out_changed));
    loop_op *op = &loops->ops.items[0];
    assert_int_equal(op->tile_depth, 1);
    assert_int_equal(loops->tiles.items[0].count, 8);
    op->operand[0].offset = op->operand[0].tile_stride[0];
    op->operand[0].tile_stride[0] = 0;
    return NULL;
}

// Tiles and slices stay tiles and slices on the smaller tensors.
static void translation__hints_hold_on_small_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"R,C", "C,R"};
    for (uint32_t i = 0; i < 2; i++) {
        front_pass_row passes[FRONT_PASS_COUNT];
        front_run run = front_run_begin();
        make_graph(&run, 1 << 13, 1 << 12);
        assert_ok(spyre_graph_name_dims(run.graph, run.graph->inputs.items[0].value, names[i]));
        for (uint32_t n = 0; n < run.graph->nodes.count; n++) {
            assert_ok(spyre_graph_set_tiles(run.graph, n, "1:R=8"));
            assert_ok(spyre_graph_set_work_division(run.graph, n, "R=2"));
        }
        memcpy(passes, front_passes, sizeof passes);
        assert_ok(translation_validate(run.graph, &run.settings, passes, FRONT_PASS_COUNT,
                                       front_emit));
        for (uint32_t p = 0; p < FRONT_PASS_COUNT; p++)
            if (strcmp(passes[p].name, "coarse_tile") == 0) passes[p].run = mistakes_tiles;
        spyre_status status = translation_validate(run.graph, &run.settings, passes,
                                                   FRONT_PASS_COUNT, front_emit);
        assert_non_null(strstr(spyre_status_message(status), "pass coarse_tile changed output 0"));
        spyre_status_free(status);
        front_run_end(&run);
    }
}

// --- Shrinking

static void shrink__what_flows_together_shrinks_together(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    int64_t steps;
    make_graph(&run, 1000, 4100);
    loop_graph *loops = front_case_before(&run, 32, "deadcode");
    assert_ok(loop_shrink_sizes(loops, 100000, &steps));
    assert_true(steps <= 100000);
    assert_ok(loop_verify(loops));
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        assert_string_equal(front_case_loops(loops, i), "168 132");
        assert_int_equal(loops->ops.items[i].operand[0].stride[0], 132);
    }
    assert_int_equal(loops->outputs.items[0].view.size[0], 168);
    front_run_end(&run);
}

static void shrink__small_graphs_stay(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    int64_t steps;
    make_graph(&run, 10, 200);
    loop_graph *loops = front_case_before(&run, 32, "deadcode");
    assert_ok(loop_shrink_sizes(loops, 100000, &steps));
    assert_int_equal(steps, 3 * 10 * 200);
    assert_string_equal(front_case_loops(loops, 0), "10 200");
    front_run_end(&run);
}

// A slice pins the dim that it cuts, the other one shrinks.
static void shrink__cut_dims_stay(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    int64_t steps;
    uint32_t x = front_case_input(&run, sizes_view(2, 1000, 4096, 0));
    spyre_view part = {.rank = 2, .size = {500, 4096}, .stride = {8192, 1}, .offset = 0};
    uint32_t even = front_run_view(&run, x, SPYRE_DTYPE_F16, part);
    front_case_output(&run, front_case_unary(&run, "spyre.abs", even, sizes_view(2, 500, 4096, 0)));
    loop_graph *loops = front_case_before(&run, 32, "deadcode");
    assert_ok(loop_shrink_sizes(loops, 100000, &steps));
    assert_ok(loop_verify(loops));
    assert_string_equal(front_case_loops(loops, 0), "500 128");
    assert_int_equal(loops->ops.items[0].operand[0].stride[0], 256);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(translation__our_passes_change_nothing),
        cmocka_unit_test(translation__names_the_culprit),
        cmocka_unit_test(translation__names_the_stage),
        cmocka_unit_test(translation__large_tensors_are_shrunk),
        cmocka_unit_test(translation__hints_hold_on_small_tensors),
        cmocka_unit_test(shrink__what_flows_together_shrinks_together),
        cmocka_unit_test(shrink__small_graphs_stay),
        cmocka_unit_test(shrink__cut_dims_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
