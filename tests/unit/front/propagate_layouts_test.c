// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "support/front_case.h"

// A cat of `x` and `y`, fp16, along `dim`; the buffer that it fills.
static const loop_buffer *cat(front_run *run, spyre_view x, spyre_view y, spyre_view whole,
                              int64_t dim)
{
    spyre_arg pieces[] = {{.kind = SPYRE_ARG_VALUE, .of.value = front_case_input(run, x)},
                          {.kind = SPYRE_ARG_VALUE, .of.value = front_case_input(run, y)}};
    spyre_arg args[] = {{.kind = SPYRE_ARG_LIST, .of.list = {pieces, 2}},
                        {.kind = SPYRE_ARG_INT, .of.integer = dim}};
    front_case_output(run, front_run_node(run, "spyre.cat", args, 2, SPYRE_DTYPE_F16, whole));
    loop_graph *loops = front_case_before(run, 1, "output_layouts");
    uint32_t id = loop_output_of(&loops->ops.items[loops->ops.count - 1])->buffer;
    return &loops->buffers.items[id];
}

static void propagate_layouts__pieces_agree_on_a_stick(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    const loop_buffer *buffer =
        cat(&run, sizes_view(2, 6, 64, 0), sizes_view(2, 6, 64, 0), sizes_view(2, 6, 128, 0), 1);
    assert_int_equal(buffer->stick, 0);
    // The second piece starts inside a stick: rows are left.
    buffer =
        cat(&run, sizes_view(2, 6, 32, 0), sizes_view(2, 6, 32, 0), sizes_view(2, 6, 64, 0), 1);
    assert_int_equal(buffer->dim[buffer->stick].stride, 64);
    // One piece does not move along the columns.
    buffer = cat(&run, sizes_view(2, 6, 64, 0), sizes_view(2, 6, 1, 0), sizes_view(2, 6, 65, 0), 1);
    assert_int_equal(buffer->dim[buffer->stick].stride, 65);
    // No dim is left: one element a stick.
    buffer = cat(&run, sizes_view(1, 5, 0, 0), sizes_view(1, 7, 0, 0), sizes_view(1, 12, 0, 0), 0);
    assert_int_equal(buffer->stick, LOOP_NO_DIM);
    // The same where the first piece has columns only.
    buffer =
        cat(&run, sizes_view(2, 1, 64, 0), sizes_view(2, 5, 64, 0), sizes_view(2, 6, 64, 0), 0);
    assert_int_equal(buffer->stick, 0);
    front_run_end(&run);
}

// The stick of x runs along its rows; the two moments of a row stay in one stick all the same.
static void propagate_layouts__moments_are_not_restickified(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view turned = {2, {70, 50}, {1, 70}, 0};
    uint32_t x = front_case_input(&run, sizes_view(2, 50, 70, 0));
    spyre_arg args[] = {
        {.kind = SPYRE_ARG_VALUE, .of.value = front_run_view(&run, x, SPYRE_DTYPE_F16, turned)},
        {.kind = SPYRE_ARG_NONE},
        {.kind = SPYRE_ARG_NONE},
        {.kind = SPYRE_ARG_FLOAT, .of.real = 1e-5}};
    front_case_output(&run, front_run_node(&run, "spyre.layer_norm", args, 4, SPYRE_DTYPE_F16,
                                           sizes_view(2, 70, 50, 0)));
    loop_graph *loops = front_case_before(&run, 1, NULL);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (op->op != OPFUNC_RESTICKIFY) continue;
        assert_false(loops->buffers.items[op->operand[0].buffer].exx2);
    }
    front_run_end(&run);
}

// abs(x) of [6, 64], before sticks are chosen.
static loop_graph *absolute(front_run *run)
{
    spyre_view view = sizes_view(2, 6, 64, 0);
    front_case_output(run, front_case_unary(run, "spyre.abs", front_case_input(run, view), view));
    return front_case_before(run, 1, "propagate_layouts");
}

static void assert_refused(loop_graph *loops, const char *message)
{
    bool changed;
    spyre_status status = pass_propagate_layouts(loops, &changed);
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    assert_string_equal(spyre_status_message(status), message);
    spyre_status_free(status);
}

// What cannot be laid out is told with every layout of every operand, and what speaks against it.
static void propagate_layouts__refusals_list_all_layouts(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = absolute(&run);
    loops->ops.items[0].operand[0].stride[0] = 65; // a diagonal
    assert_refused(loops,
                   "op v7 abs (model.py:1): no layout fits the view of an operand; "
                   "operand 0 %in0 stick along 64:1: steps across its dims, stick along 6:64: "
                   "steps across its dims, one element a stick: steps across its dims; result %v7 "
                   "stick along 64:1: along c1, stick along 6:64: along c0, one element a stick: "
                   "along no loop");
    front_run_end(&run);
    run = front_run_begin();
    loops = absolute(&run);
    loops->ops.items[0].wanted_stick = 6; // there is no c5
    assert_refused(loops,
                   "op v8 abs (model.py:1): no layout of the result goes with those of "
                   "the operands; a pass wants c5; operand 0 %in0 stick along 64:1: along c1, "
                   "stick along 6:64: along c0, one element a stick: along no loop; result %v8 "
                   "stick along 64:1: along c1, stick along 6:64: along c0, one element a stick: "
                   "along no loop");
    front_run_end(&run);
}

// Rows 1 to 16 of 17 are read as four times four: 17 is no multiple of 4, so nothing lies behind.
static void propagate_layouts__uneven_dims_are_outermost(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view whole = sizes_view(3, 2, 17, 128);
    spyre_view patches = {4, {2, 4, 4, 128}, {17 * 128, 4 * 128, 128, 1}, 128};
    uint32_t n = front_case_unary(&run, "spyre.neg", front_case_input(&run, whole), whole);
    uint32_t view = front_run_view(&run, n, SPYRE_DTYPE_F16, patches);
    spyre_view result = {4, {2, 4, 4, 128}, {2048, 512, 128, 1}, 0};
    front_case_output(&run, front_case_unary(&run, "spyre.abs", view, result));
    loop_graph *loops = front_case_before(&run, 1, "output_layouts");
    const loop_buffer *buffer = &loops->buffers.items[loop_output_of(&loops->ops.items[0])->buffer];
    assert_int_equal(buffer->dim_count, 3);
    assert_int_equal(buffer->order[2], 1);
    assert_int_equal(buffer->dim[1].extent, 17);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(propagate_layouts__pieces_agree_on_a_stick),
        cmocka_unit_test(propagate_layouts__moments_are_not_restickified),
        cmocka_unit_test(propagate_layouts__refusals_list_all_layouts),
        cmocka_unit_test(propagate_layouts__uneven_dims_are_outermost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
