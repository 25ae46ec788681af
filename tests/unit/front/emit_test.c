// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

static spyre_status compile(front_run *run, front_result *out)
{
    uint32_t node;
    const front_options options = {.settings = run->settings};
    return front_compile(run->graph, &options, run->memory, &node, out);
}

static front_run exp_of(int64_t rows, int64_t columns)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, rows, columns, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.exp", x, view));
    return run;
}

// The sum along the rows of an exponential, which lies in memory in between.
static front_run sum_of_exp(int64_t rows, int64_t columns)
{
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, rows, columns, 0), row = sizes_view(1, rows, 0, 0);
    uint32_t x = front_case_input(&run, view);
    uint32_t e = front_case_unary(&run, "spyre.exp", x, view);
    const spyre_arg dim = {.kind = SPYRE_ARG_INT, .of.integer = 1};
    const spyre_arg args[] = {
        {.kind = SPYRE_ARG_VALUE, .of.value = e},
        {.kind = SPYRE_ARG_LIST, .of.list = {&dim, 1}},
        {.kind = SPYRE_ARG_BOOL},
    };
    front_case_output(&run, front_run_node(&run, "spyre.sum", args, 3, SPYRE_DTYPE_F16, row));
    return run;
}

static void emit__a_segment_has_16_gib(void **state)
{
    (void)state;
    front_result result;
    setenv("SPYRE_LOG", "off", 1); // of how far a core reaches
    front_run run = exp_of(1 << 17, 1 << 16);
    assert_ok(compile(&run, &result));
    front_run_end(&run);
    run = sum_of_exp((1 << 17) + 1, 1 << 16);
    assert_error(compile(&run, &result), SPYRE_OUT_OF_MEMORY,
                 "takes 17180000256 bytes of card memory, a segment has 17179869184");
    front_run_end(&run);
}

static void emit__a_result_fits_a_segment(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view row = sizes_view(1, 1 << 20, 0, 0);
    spyre_view view = sizes_view(2, (1 << 17) + 1, 1 << 16, 0);
    uint32_t x = front_case_input(&run, row);
    uint32_t wide = front_case_unary(&run, "spyre.exp", x, view);
    assert_error(spyre_graph_add_output(run.graph, wide), SPYRE_OUT_OF_MEMORY,
                 "takes 17180000256 bytes of card memory, a segment has 17179869184");
    spyre_view repeated = view; // of few elements
    repeated.stride[0] = 0;
    assert_ok(spyre_graph_add_output(run.graph,
                                     front_case_unary(&run, "spyre.exp", x, repeated)));
    front_run_end(&run);
}

static void emit__a_wrong_bundle_is_our_fault(void **state)
{
    (void)state;
    front_result result, again;
    front_run run = exp_of(64, 64);
    assert_ok(compile(&run, &result));
    loop_buffer *output = &result.loops->buffers.items[1];
    assert_int_equal(output->output, 0);
    output->memory_offset = 65;
    assert_error(front_emit(result.loops, &again), SPYRE_INTERNAL,
                 "emitted bundle: step 0 0_exp: Tensor1: startAddressCoreCorelet_: core 0: 65 is "
                 "not a multiple of 2 ");
    front_run_end(&run);
}

// abs of [4, 64] on two cores, the example of torch-spyre/torch-spyre,
// docs/source/compiler/backend.md at 0b01972: two rows of a stick each a core.
static void emit__cores_begin_where_their_slices_do(void **state)
{
    (void)state;
    front_result result;
    front_run run = front_run_begin();
    run.settings.sencores = 2;
    spyre_view view = sizes_view(2, 4, 64, 0);
    uint32_t x = front_case_input(&run, view);
    front_case_output(&run, front_case_unary(&run, "spyre.abs", x, view));
    assert_ok(compile(&run, &result));
    const bundle_step *step = &result.bundle->steps.items[0];
    assert_int_equal(step->cores->core_count, 2);
    for (uint32_t t = 0; t < 2; t++) {
        assert_int_equal(step->tensors[t].arg, t);
        assert_int_equal(step->tensors[t].start, 0);
        assert_int_equal(bundle_start(&step->tensors[t], 1), 256);
    }
    front_run_end(&run);
}

// "INPUT x in mb, KERNEL x in out, ..": label and dims of every tensor, fastest first, the shared
// order of its label behind it where that is another one.
static void describe_layouts(const bundle_step *step, text *out)
{
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        const bundle_tensor *tensor = &step->tensors[t];
        text_printf(out, "%s%s", t ? ", " : "", tensor->label);
        for (uint32_t i = 0; i < tensor->order_count; i++)
            text_printf(out, " %s", step->dim_name[tensor->order[i]]);
        assert_int_equal(tensor->label_order_count, tensor->order_count);
        if (memcmp(tensor->order, tensor->label_order, tensor->order_count) == 0) continue;
        text_append(out, " of");
        for (uint32_t i = 0; i < tensor->order_count; i++)
            text_printf(out, " %s", step->dim_name[tensor->label_order[i]]);
    }
}

static void assert_layouts(front_run *run, const char *expected)
{
    front_result result;
    assert_ok(compile(run, &result));
    assert_int_equal(result.bundle->steps.count, 1);
    text found = {0};
    describe_layouts(&result.bundle->steps.items[0], &found);
    assert_string_equal(text_string(&found), expected);
    text_free(&found);
    front_run_end(run);
}

// Names of dims, labels of layouts and orders are those that torch-spyre's front-end writes for the
// same programs.
static void emit__labels_and_orders_are_the_published_ones(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    uint32_t a = front_case_input(&run, sizes_view(3, 8, 128, 256));
    uint32_t b = front_case_input(&run, sizes_view(3, 8, 256, 64));
    front_case_output(
        &run, front_case_binary(&run, "spyre.batchmatmul", a, b, sizes_view(3, 8, 128, 64)));
    assert_layouts(&run, "INPUT x in mb, KERNEL x in out, OUTPUT x mb out");
    run = front_run_begin();
    a = front_case_input(&run, sizes_view(2, 128, 256, 0));
    b = front_case_input(&run, sizes_view(2, 256, 512, 0));
    front_case_output(
        &run, front_case_binary(&run, "spyre.batchmatmul", a, b, sizes_view(2, 128, 512, 0)));
    assert_layouts(&run, "INPUT mb in, KERNEL in out, OUTPUT mb out");
    run = front_run_begin();
    a = front_case_input(&run, sizes_view(2, 512, 256, 0));
    b = front_case_input(&run, sizes_view(2, 512, 1, 0));
    front_case_output(&run,
                      front_case_binary(&run, "spyre.add", a, b, sizes_view(2, 512, 256, 0)));
    assert_layouts(&run, "OUTPUT mb out, OUTPUT mb out, OUTPUT mb out");
    run = front_run_begin();
    uint32_t turned = front_run_view(&run, front_case_input(&run, sizes_view(2, 256, 512, 0)),
                                     SPYRE_DTYPE_F16, (spyre_view){2, {512, 256}, {1, 512}, 0});
    front_case_output(
        &run, front_case_unary(&run, "spyre.identity", turned, sizes_view(2, 512, 256, 0)));
    assert_layouts(&run, "OUTPUT out mb, KERNEL mb out");
}

// The restickify of a view of x[rows, columns] into the default layout.
static bundle_step turned(front_run *run, int64_t rows, int64_t columns, spyre_view view)
{
    front_result result;
    uint32_t x = front_case_input(run, sizes_view(2, rows, columns, 0));
    uint32_t part = front_run_view(run, x, SPYRE_DTYPE_F16, view);
    spyre_view out = sizes_view(2, view.size[0], view.size[1], 0);
    front_case_output(run, front_case_unary(run, "spyre.identity", part, out));
    assert_ok(compile(run, &result));
    assert_int_equal(result.bundle->steps.count, 1);
    assert_int_equal(result.bundle->steps.items[0].op, OPFUNC_RESTICKIFY);
    return result.bundle->steps.items[0];
}

// Both sides of a restickify are whole sticks, and say by their gaps what they have of them; rows
// of a view, behind which others follow, cannot, and are not divided.
static void emit__both_sides_of_a_restickify_are_padded(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    bundle_step step = turned(&run, 67, 100, (spyre_view){2, {100, 67}, {1, 100}, 0});
    assert_int_equal(step.size[0], 128);
    assert_int_equal(step.size[1], 128);
    assert_int_equal(step.tensors[0].gap[1], 128 - 67);
    assert_int_equal(step.tensors[1].gap[0], 128 - 100);
    assert_int_equal(step.cores->core_count, 4);
    front_run_end(&run);
    run = front_run_begin();
    step = turned(&run, 100, 128, (spyre_view){2, {128, 67}, {1, 128}, 128});
    assert_int_equal(step.size[0], 128);
    assert_int_equal(step.size[1], 67);
    assert_int_equal(step.cores->core_count, 2);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emit__a_segment_has_16_gib),
        cmocka_unit_test(emit__a_result_fits_a_segment),
        cmocka_unit_test(emit__a_wrong_bundle_is_our_fault),
        cmocka_unit_test(emit__cores_begin_where_their_slices_do),
        cmocka_unit_test(emit__labels_and_orders_are_the_published_ones),
        cmocka_unit_test(emit__both_sides_of_a_restickify_are_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
