// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "front/ir/lx_slices.h"
#include "support/front_case.h"

// x.softmax(dim 0) of an M x N matrix, as its five ops.
static void add_softmax(front_run *run, int64_t m, int64_t n)
{
    spyre_view whole = sizes_view(2, m, n, 0), row = sizes_view(2, 1, n, 0);
    uint32_t x = front_case_input(run, whole);
    spyre_arg first = {.kind = SPYRE_ARG_INT, .of.integer = 0};
    spyre_arg args[] = {{.kind = SPYRE_ARG_VALUE, .of.value = x},
                        {.kind = SPYRE_ARG_LIST, .of.list = {&first, 1}},
                        {.kind = SPYRE_ARG_BOOL, .of.boolean = true}};
    uint32_t top = front_run_node(run, "spyre.max", args, 3, SPYRE_DTYPE_F16, row);
    uint32_t lower = front_case_binary(run, "spyre.sub", x, top, whole);
    uint32_t power = front_case_unary(run, "spyre.exp", lower, whole);
    args[0].of.value = power;
    uint32_t sum = front_run_node(run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, row);
    front_case_output(run, front_case_binary(run, "spyre.realdiv", power, sum, whole));
}

// Elements that the program of the graph reads and writes in memory.
static int64_t traffic(front_run *run)
{
    front_result result;
    front_options options = {.settings = run->settings};
    const back_options back = BACK_OPTIONS_INIT;
    isa_program *program;
    uint32_t node;
    int64_t bytes = 0;
    assert_ok(front_compile(run->graph, &options, run->memory, &node, &result));
    assert_ok(back_compile(result.bundle, &back, run->memory, &program));
    card_counters *kernels =
        ARENA_NEW(run->memory, card_counters, program->kernels.count);
    assert_ok(card_time(program, kernels));
    for (uint32_t k = 0; k < program->kernels.count; k++)
        bytes += kernels[k].memory_read_bytes + kernels[k].memory_written_bytes;
    return bytes / 2;
}

// The stages of torch-spyre's docs/source/compiler/scratchpad_planning.md for softmax of 512 x 1024
// along dim 0 on one core: everything in memory, 8MN + 4N; the reductions' results in LX, 8MN; all
// intermediates in LX, 3MN; the input copied into LX, 2MN.
static void lx_planning__traffic_of_softmax(void **state)
{
    (void)state;
    const int64_t m = 512, n = 1024;
    front_run run = front_run_begin();
    run.settings.sencores = 1;
    run.settings.tile_for_lx = false;
    add_softmax(&run, m, n);
    run.settings.lx_planning = false;
    assert_int_equal(traffic(&run), 8 * m * n + 4 * n);
    run.settings.lx_planning = true;
    run.settings.dxp_lx_frac_avail = 0.9;
    assert_int_equal(traffic(&run), 8 * m * n);
    run.settings.dxp_lx_frac_avail = 0.2;
    assert_int_equal(traffic(&run), 3 * m * n);
    run.settings.lx_boundary_clones = true;
    assert_int_equal(traffic(&run), 2 * m * n);
    front_run_end(&run);
}

static const loop_buffer *buffer_named(const loop_graph *loops, uint32_t op)
{
    const loop_op *o = &loops->ops.items[op];
    return &loops->buffers.items[o->operand[o->operand_count - 1].buffer];
}

static void lx_planning__exp_takes_the_place_of_sub(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    add_softmax(&run, 512, 1024);
    loop_graph *loops = front_case_before(&run, 1, NULL);
    const loop_buffer *sub = buffer_named(loops, 1), *power = buffer_named(loops, 2);
    assert_true(sub->in_lx && power->in_lx);
    assert_int_equal(sub->memory_offset, power->memory_offset);
    assert_int_equal(loops->pool_bytes, 0);
    front_run_end(&run);
}

static void lx_planning__one_address_on_every_core(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_result result;
    uint32_t node, in_lx = 0;
    add_softmax(&run, 64, 2048);
    front_options options = {.settings = run.settings};
    assert_ok(front_compile(run.graph, &options, run.memory, &node, &result));
    for (uint32_t s = 0; s < result.bundle->steps.count; s++) {
        const bundle_step *step = &result.bundle->steps.items[s];
        assert_int_equal(step->cores->core_count, 32);
        for (uint32_t t = 0; t < step->tensor_count; t++) {
            const bundle_tensor *tensor = &step->tensors[t];
            in_lx += tensor->in_lx;
            if (tensor->in_lx) assert_int_equal(tensor->arg, -1);
            for (uint32_t c = 0; tensor->in_lx && c < step->cores->core_count; c++)
                assert_int_equal(bundle_start(tensor, c), tensor->start);
        }
    }
    assert_int_equal(in_lx, 9); // all but what max and sub read of x and what realdiv writes
    assert_int_equal(result.bundle->args.count, 2);
    front_run_end(&run);
}

static void lx_planning__published_opfuncs_only(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_case_pair(&run, "spyre.tanh", "spyre.abs", sizes_view(2, 64, 64, 0));
    assert_true(buffer_named(front_case_before(&run, 4, NULL), 0)->in_lx);
    run.settings.allow_all_ops_in_lx_planning = false;
    const loop_buffer *tanh = buffer_named(front_case_before(&run, 4, NULL), 0);
    assert_false(tanh->in_lx);
    assert_string_equal(tanh->why_in_memory, "its opfunc is not listed");
    front_run_end(&run);
}

static void lx_planning__divisions_that_differ_stay_in_memory(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    front_case_pair(&run, "spyre.tanh", "spyre.abs", sizes_view(2, 64, 64, 0));
    run.settings.lx_planner_relayout = false;
    loop_graph *loops = front_case_before(&run, 4, "lx_planning");
    bool changed;
    loops->ops.items[0].split[0] = 4;
    loops->ops.items[0].core_stride[0] = 1;
    loops->ops.items[1].split[0] = 2;
    loops->ops.items[1].core_stride[0] = 1;
    assert_ok(pass_lx_planning(loops, &changed));
    assert_string_equal(buffer_named(loops, 0)->why_in_memory, "a reader divides it differently");
    assert_false(buffer_named(loops, 0)->in_lx);
    front_run_end(&run);
}

// 2 MiB less the back-end's share, in whole sticks.
static void lx_planning__limit(void **state)
{
    (void)state;
    static const struct {
        double share;
        int64_t limit;
    } cases[] = {{0.2, 1677696}, {0.5, 1 << 20}, {0, 2 << 20}, {1, 0}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loop_graph loops = {.settings = spyre_settings_default()};
        loops.settings.dxp_lx_frac_avail = cases[i].share;
        assert_int_equal(lx_limit_bytes(&loops), cases[i].limit);
    }
}

// What cores share, what enters and what leaves.
static void lx_planning__who_stays_in_memory(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    add_softmax(&run, 512, 1024);
    loop_graph *loops = front_case_before(&run, 4, "lx_planning");
    bool changed;
    loops->ops.items[0].split[0] = 4; // max, along the rows that it reduces
    for (uint32_t v = 1; v < loops->ops.items[0].var_count; v++) loops->ops.items[0].split[v] = 1;
    loops->ops.items[0].core_stride[0] = 1;
    assert_true(loop_var_is_reduced(&loops->ops.items[0], 0));
    assert_ok(pass_lx_planning(loops, &changed));
    assert_string_equal(buffer_named(loops, 0)->why_in_memory, "its cores share every result");
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind == LOOP_INPUT || buffer->output >= 0) assert_false(buffer->in_lx);
    }
    front_run_end(&run);
}

// A copy of tiles that joins dims of 10:12 6:2 stays, though LX has no place for it: what reads it
// by steps of 20 moves by no whole steps of a dim of the original.
static void lx_planning__copies_that_join_dims_stay(void **state)
{
    (void)state;
    static const char stage[] =
        "after work_distribution\n"
        "set sencores=24\n"
        "set max_span_bytes=256\n"
        "buffer b0 input float16 SEN169_FP16 dims(2:1 6:2 10:12) tensor(1:120 10:12 6:2 2:1) "
        "layout(1 2 0*) walked  // in0\n"
        "buffer b1 local float16 SEN169_FP16 dims(10:1 6:10 2:60) "
        "tensor(2:60 1:60 6:10 10:1) layout(0 1 2*) output(0) walked  // v1\n"
        "buffer b2 local float16 SEN169_FP16 dims(2:1 30:2) tensor(60:2 2:1) layout(1 0*) "
        "per_tile(1)  // in0\n"
        "op 0 identity for(c0<5, c1<6, c2<2 stick) in(t0<2* a long span) split(c0/5) "
        "split(c1/3:5) by(span) node(0)  // in0, model.py:1\n"
        "    b2[0 + 12*c0 + 2*c1 + 1*c2] = b0[0 + 12*c0 + 2*c1 + 1*c2 + 60*t0]\n"
        "op 1 neg for(c0<2 stick, c1<3, c2<10) in(t0<2* a long span) split(c1/3) "
        "split(c2/5:3) by(span) node(0)  // v1, model.py:1\n"
        "    b1[0 + 60*c0 + 10*c1 + 1*c2 + 30*t0] = b2[0 + 1*c0 + 20*c1 + 2*c2]\n"
        "return b1[0] 2:60 1:60 6:10 10:1\n";
    loop_graph *loops;
    bool changed;
    arena *memory = arena_create();
    assert_ok(loop_parse(stage, "case.loop", "work_distribution", memory, &loops));
    assert_ok(pass_lx_planning(loops, &changed));
    assert_string_equal(front_case_ops(loops), "identity/1 neg/1");
    assert_ok(loop_verify(loops));
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lx_planning__traffic_of_softmax),
        cmocka_unit_test(lx_planning__exp_takes_the_place_of_sub),
        cmocka_unit_test(lx_planning__one_address_on_every_core),
        cmocka_unit_test(lx_planning__published_opfuncs_only),
        cmocka_unit_test(lx_planning__divisions_that_differ_stay_in_memory),
        cmocka_unit_test(lx_planning__limit),
        cmocka_unit_test(lx_planning__who_stays_in_memory),
        cmocka_unit_test(lx_planning__copies_that_join_dims_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
