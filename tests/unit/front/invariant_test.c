// SPDX-License-Identifier: Apache-2.0
//
// Every row of invariant.def has a case that breaks it and nothing above it.
#include "unit/check.h"

#include "front/check/invariant.h"
#include "support/front_case.h"

static const char *const names[] = {
#define PASS_ROW(name, kind, summary) #name,
#include "front/pass.def"
#undef PASS_ROW
    NULL};

typedef struct {
    const char *number;
    uint32_t stage;
    bool lx;
    void (*damage)(loop_graph *loops);
    const char *message; // behind the number and the rule
} breakage;

// b0 %in0 [64, 128] input; b1 = abs b0, b2 = neg b1, b3 = add b2 b1 with constant; b3 is returned.
static loop_graph *make_loops(front_run *run, const breakage *b)
{
    spyre_view view = sizes_view(2, 64, 128, 0);
    uint32_t x = front_case_input(run, view);
    uint32_t a = front_case_unary(run, "spyre.abs", x, view);
    uint32_t n = front_case_unary(run, "spyre.neg", a, view);
    front_case_output(run, front_case_binary(run, "spyre.add", n, a, view));
    run->settings.lx_planning = b->lx;
    return front_case_before(run, 4, names[b->stage]);
}

static loop_op *last_op(loop_graph *loops)
{
    return &loops->ops.items[loops->ops.count - 1];
}

static loop_buffer *buffer_of(loop_graph *loops, uint32_t op, uint32_t operand)
{
    return &loops->buffers.items[loops->ops.items[op].operand[operand].buffer];
}

// --- The damage, by number

static void unknown_buffer(loop_graph *loops)
{
    last_op(loops)->operand[1].buffer = 17;
}

static void missing_operand(loop_graph *loops)
{
    last_op(loops)->operand[1] = last_op(loops)->operand[2];
    last_op(loops)->operand_count--;
}

static void loop_of_one(loop_graph *loops)
{
    last_op(loops)->extent[0] = 1;
}

static void unknown_node(loop_graph *loops)
{
    last_op(loops)->node = 99;
}

static void meeting_dims(loop_graph *loops)
{
    buffer_of(loops, 1, 0)->dim[1].stride = 100;
}

static void unknown_input(loop_graph *loops)
{
    buffer_of(loops, 0, 0)->index = 1;
}

static void written_input(loop_graph *loops)
{
    last_op(loops)->operand[2].buffer = loops->ops.items[0].operand[0].buffer;
}

static void swapped_ops(loop_graph *loops)
{
    loop_op first = loops->ops.items[0];
    loops->ops.items[0] = loops->ops.items[1];
    loops->ops.items[1] = first;
}

static void lost_op(loop_graph *loops)
{
    loops->ops.count--;
}

static void torn_loop(loop_graph *loops)
{
    loop_tiles tiles = {.count = 2, .name = "M"};
    if (VEC_PUSH(loops->memory, &loops->tiles, tiles)) abort();
    loops->ops.items[0].tile_depth = loops->ops.items[2].tile_depth = 1;
}

static void far_offset(loop_graph *loops)
{
    last_op(loops)->operand[0].offset = 1;
}

static void equal_cores(loop_graph *loops)
{
    loop_op *op = last_op(loops);
    op->split[0] = op->split[1] = 2;
    op->core_stride[0] = op->core_stride[1] = 1;
}

static void odd_step(loop_graph *loops)
{
    last_op(loops)->extent[0] = 2;
    last_op(loops)->operand[0].stride[0] = 200;
}

static void doubled_order(loop_graph *loops)
{
    buffer_of(loops, 1, 0)->order[1] = buffer_of(loops, 1, 0)->order[0];
}

static void half_stick(loop_graph *loops)
{
    last_op(loops)->extent[0] = 2;
    last_op(loops)->extent[1] = 64;
    last_op(loops)->operand[0].offset = 32;
}

static void other_stick(loop_graph *loops)
{
    last_op(loops)->stick = 0;
}

static void other_host(loop_graph *loops)
{
    buffer_of(loops, 2, 2)->storage.size[0] = 32;
}

static void seven_slices(loop_graph *loops)
{
    last_op(loops)->split[0] = 3;
    last_op(loops)->core_stride[0] = 1;
}

static void too_high(loop_graph *loops)
{
    buffer_of(loops, 1, 0)->memory_offset = 2 << 20;
}

static void other_slices(loop_graph *loops)
{
    loop_op *op = &loops->ops.items[1];
    op->split[0] = 2;
}

static void moved(loop_graph *loops)
{
    buffer_of(loops, 1, 1)->memory_offset = buffer_of(loops, 1, 0)->memory_offset;
}

static void longer_life(loop_graph *loops)
{
    buffer_of(loops, 1, 0)->last_op = 1;
}

static void outside_pool(loop_graph *loops)
{
    loops->pool_bytes = 64;
}

static void smaller_result(loop_graph *loops)
{
    loops->buffers.items[3].bytes = 128;
}

static const breakage cases[] = {
    {"01", STAGE_build, true, unknown_buffer,
     "op 2 v add (model.py:1), operand 1: buffer 17 of 4"},
    {"02", STAGE_build, true, missing_operand,
     "op 2 v add (model.py:1): 2 operands with the result, add takes 2 to 2 and a result"},
    {"03", STAGE_build, true, loop_of_one,
     "op 2 v add (model.py:1): loop c0 of extent 1 in 1 slices"},
    {"04", STAGE_build, true, unknown_node,
     "op 2 v add (model.py:1): node 99 of 3"},
    {"05", STAGE_build, true, meeting_dims,
     "buffer b1 %v: dim 1 of extent 64 and stride 100 above dims that end at 128"},
    {"06", STAGE_build, true, unknown_input,
     "buffer b0 %in0: input 1 of 1"},
    {"07", STAGE_build, true, written_input,
     "op 2 v add (model.py:1): b0 %in0 is an input"},
    {"08", STAGE_build, true, swapped_ops,
     "op 0 v neg (model.py:1), operand 0 (b1 %v): nothing wrote it"},
    {"09", STAGE_build, true, lost_op,
     "output 0: b3 %v: nothing writes it"},
    {"24", STAGE_build, true, torn_loop, "op 2 v add (model.py:1): t0 again"},
    {"10", STAGE_deadcode, true, far_offset,
     "op 2 v add (model.py:1), operand 0 (b2 %v): elements 1 to 8192 of 8192"},
    {"11", STAGE_joint_work_division, true, equal_cores,
     "op 2 v add (model.py:1): slices of c1 are 1 cores apart, 2 would tell them apart"},
    {"12", STAGE_normalize_loops, true, odd_step,
     "op 2 v add (model.py:1), operand 0 (b2 %v): c0 moves by 200, dim 1 has stride 128"},
    {"13", STAGE_propagate_layouts, true, doubled_order,
     "op 0 v abs (model.py:1), operand 1 (b1 %v): place 1 of the order is dim 1 of 2, for the "
     "second time"},
    {"14", STAGE_propagate_layouts, true, half_stick,
     "op 2 v add (model.py:1), operand 0 (b2 %v): starts inside a stick"},
    {"15", STAGE_propagate_layouts, true, other_stick,
     "op 2 v add (model.py:1): the stick loop is c0, the result has its stick along c1"},
    {"16", STAGE_output_layouts, true, other_host,
     "buffer b3 %v: dim 1 of extent 64 and stride 128, its host tensor's has 32 and 128"},
    {"17", STAGE_span_reduction, true, seven_slices,
     "op 2 v add (model.py:1): c0 of 64 elements, 64 units, in 3 slices"},
    {"18", STAGE_lx_planning, true, too_high,
     "buffer b1 %v: 4096 bytes from byte 2097152 on, of 1677696"},
    {"19", STAGE_lx_planning, true, other_slices,
     "buffer b1 %v: a reader divides it differently"},
    {"20", STAGE_lx_planning, true, moved,
     "buffers b1 %v in bytes [0, 4096) during ops 0 to 2 and b2 %v in [0, 4096) during 1 to 2"},
    {"21", STAGE_memory_planning, true, longer_life,
     "buffer b1 %v: ops 0 to 1, ops 0 to 2 touch it"},
    {"22", STAGE_memory_planning, false, outside_pool,
     "buffer b1 %v: 16384 bytes from byte 0 on, of 64"},
    {"25", STAGE_memory_planning, true, smaller_result,
     "buffer b3 %v: 128 bytes, its layout takes 16384"},
    {"23", STAGE_memory_planning, false, moved,
     "buffers b1 %v in bytes [0, 16384) during ops 0 to 2 and b2 %v in [0, 16384) during 1 to 2"},
};

static const struct {
    const char *number, *holds;
} rules[] = {
#define INVARIANT_ROW(number, kind, name, from, holds) {#number, holds},
#include "front/check/invariant.def"
#undef INVARIANT_ROW
};

enum { RULE_COUNT = sizeof rules / sizeof rules[0] };

// Without the numbers that tell names of graph values apart: "%v12" becomes "%v".
static void drop_numbers(char *message)
{
    char *to = message;
    for (const char *from = message; *from; from++) {
        *to++ = *from;
        if (*from != 'v' || (from > message && from[-1] != ' ' && from[-1] != '%')) continue;
        while (from[1] >= '0' && from[1] <= '9') from++;
    }
    *to = 0;
}

static void check_breakage(const breakage *b, const char *holds)
{
    front_run run = front_run_begin();
    char message[512], expected[512];
    loop_graph *loops = make_loops(&run, b);
    b->damage(loops);
    spyre_status status = loop_verify(loops);
    if (!status) fail_msg("I-%s holds", b->number);
    assert_int_equal(spyre_status_code(status), SPYRE_INTERNAL);
    snprintf(message, sizeof message, "%s", spyre_status_message(status));
    drop_numbers(message);
    snprintf(expected, sizeof expected, "after pass %s: I-%s, %s: %s",
             b->stage ? names[b->stage - 1] : "build", b->number, holds, b->message);
    assert_string_equal(message, expected);
    spyre_status_free(status);
    front_run_end(&run);
}

static void invariant__every_row_names_pass_place_and_values(void **state)
{
    (void)state;
    assert_int_equal(sizeof cases / sizeof cases[0], RULE_COUNT);
    for (uint32_t i = 0; i < RULE_COUNT; i++) {
        assert_string_equal(cases[i].number, rules[i].number);
        check_breakage(&cases[i], rules[i].holds);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariant__every_row_names_pass_place_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
