// SPDX-License-Identifier: Apache-2.0
//
// Loops that were written step by step: one counted loop where the steps are alike, and the same
// numbers with and without it.
#include "unit/check.h"

#include "support/front_case.h"

enum { ROWS = 64, STEPS = 4 };

typedef struct {
    front_run run;
    uint16_t x[ROWS * 256], y[ROWS * 64];
    uint32_t x_value, y_value;
    spyre_view tile;
} program;

static program *begin(void)
{
    program *p = calloc(1, sizeof *p);
    int64_t whole[] = {ROWS, 256}, tile[] = {ROWS, 64};
    for (uint32_t i = 0; i < ROWS * 256; i++) p->x[i] = (uint16_t)(0x3800 + i * 7 % 2048);
    for (uint32_t i = 0; i < ROWS * 64; i++) p->y[i] = (uint16_t)(0x3000 + i * 5 % 1024);
    p->run = front_run_begin();
    p->x_value = front_run_input(&p->run, SPYRE_DTYPE_F16, 2, whole, p->x);
    p->y_value = front_run_input(&p->run, SPYRE_DTYPE_F16, 2, tile, p->y);
    p->tile = dense_view(2, tile);
    return p;
}

static void end(program *p)
{
    front_run_end(&p->run);
    free(p);
}

// Columns [64 number, 64 number + 64) of x.
static uint32_t columns(program *p, uint32_t number)
{
    spyre_view view = {.rank = 2, .size = {ROWS, 64}, .stride = {256, 1}, .offset = 64 * number};
    return front_run_view(&p->run, p->x_value, SPYRE_DTYPE_F16, view);
}

// Marks the nodes from `first` on as of that step.
static void mark(program *p, uint32_t first, uint32_t step)
{
    char words[32];
    snprintf(words, sizeof words, "3:@%u=%u", step, STEPS);
    for (uint32_t n = first; n < p->run.graph->nodes.count; n++)
        assert_ok(spyre_graph_set_tiles(p->run.graph, n, words));
}

static uint32_t add(program *p, uint32_t a, uint32_t b)
{
    return front_case_binary(&p->run, "spyre.add", a, b, p->tile);
}

// y, or exp(y), plus exp of all tiles. `odd`: how one step differs from the others.
typedef enum { ALIKE, ANOTHER_KERNEL, ONE_MORE, UNEVEN, READ_OUTSIDE } oddity;

static void make_sums(program *p, bool computed, oddity odd)
{
    uint32_t sum = p->y_value, outside = SPYRE_NO_ID;
    if (computed) sum = front_case_unary(&p->run, "spyre.abs", sum, p->tile);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t first = p->run.graph->nodes.count;
        bool strange = odd != ALIKE && i == 2;
        uint32_t tile = columns(p, strange && odd == UNEVEN ? 3 : i);
        const char *func = strange && odd == ANOTHER_KERNEL ? "spyre.abs" : "spyre.exp";
        sum = add(p, sum, front_case_unary(&p->run, func, tile, p->tile));
        if (strange && odd == ONE_MORE) sum = front_case_unary(&p->run, "spyre.abs", sum, p->tile);
        mark(p, first, i);
        if (strange && odd == READ_OUTSIDE) outside = sum;
    }
    front_case_output(&p->run, sum);
    if (outside != SPYRE_NO_ID)
        front_case_output(&p->run, front_case_unary(&p->run, "spyre.neg", outside, p->tile));
}

static void reroll__the_sum_is_kept_in_place(void **state)
{
    (void)state;
    for (uint32_t computed = 0; computed < 2; computed++) {
        program *p = begin();
        make_sums(p, computed, ALIKE);
        loop_graph *loops = front_case_before(&p->run, 4, "span_reduction");
        // What is made for the loop alone is made where the sum is; an input is copied there.
        assert_string_equal(front_case_ops(loops),
                            computed ? "abs/0 exp/1 add/1" : "identity/0 exp/1 add/1");
        assert_int_equal(loops->tiles.items[0].count, STEPS);
        const loop_op *exp = &loops->ops.items[1], *sum = &loops->ops.items[2];
        assert_int_equal(exp->operand[0].tile_stride[0], 64);
        assert_int_equal(loops->buffers.items[exp->operand[1].buffer].tile_depth, 1);
        assert_int_equal(sum->operand[0].buffer, sum->operand[2].buffer);
        assert_int_equal(loops->buffers.items[sum->operand[2].buffer].tile_depth, 0);
        end(p);
    }
}

static void run_all(program *p, uint16_t *out, bool rolled)
{
    static const struct {
        bool unroll;
        front_engine engine;
        uint32_t cores;
    } runs[] = {{true, FRONT_RUN_INTERPRETER, 1},
                {false, FRONT_RUN_INTERPRETER, 32},
                {false, FRONT_RUN_CARD_EXACT, 4},
                {true, FRONT_RUN_CARD_FAST, 32}};
    uint16_t got[ROWS * 64], second[ROWS * 64];
    void *outputs[] = {got, second};
    for (uint32_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        p->run.settings.unroll_loops = runs[r].unroll;
        p->run.settings.skip_passes = rolled ? NULL : "reroll_steps";
        spyre_status status =
            front_run_execute(&p->run, runs[r].cores, runs[r].engine, outputs, NULL);
        if (status) fail_msg("%s", spyre_status_message(status));
        assert_int_equal(p->run.tiled > 0, rolled);
        if (r == 0 && !rolled) memcpy(out, got, sizeof got);
        assert_memory_equal(got, out, sizeof got);
    }
}

static void reroll__loops_and_steps_give_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t computed = 0; computed < 2; computed++) {
        uint16_t out[ROWS * 64];
        program *p = begin();
        make_sums(p, computed, ALIKE);
        run_all(p, out, false);
        run_all(p, out, true);
        end(p);
    }
}

// a, b = a + t, a * t: the old a is read once the new one is made, so a copy ends each iteration.
static void reroll__old_values_are_kept_while_they_are_read(void **state)
{
    (void)state;
    uint16_t out[ROWS * 64];
    program *p = begin();
    uint32_t a = p->y_value, b = p->y_value;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t first = p->run.graph->nodes.count, tile = columns(p, i);
        uint32_t next = add(p, a, tile);
        b = add(p, b, front_case_binary(&p->run, "spyre.mul", a, tile, p->tile));
        a = next;
        mark(p, first, i);
    }
    front_case_output(&p->run, front_case_binary(&p->run, "spyre.sub", a, b, p->tile));
    loop_graph *loops = front_case_before(&p->run, 4, "span_reduction");
    assert_string_equal(front_case_ops(loops),
                        "identity/0 identity/0 add/1 mul/1 add/1 identity/1 sub/0");
    run_all(p, out, false);
    run_all(p, out, true);
    end(p);
}

// What is the same in every step is computed once, in front of the loop.
static void reroll__invariants_stand_in_front(void **state)
{
    (void)state;
    uint16_t out[ROWS * 64];
    program *p = begin();
    uint32_t sum = p->y_value;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t first = p->run.graph->nodes.count;
        uint32_t same = front_case_unary(&p->run, "spyre.exp", p->y_value, p->tile);
        sum = add(p, sum, front_case_binary(&p->run, "spyre.mul", same, columns(p, i), p->tile));
        mark(p, first, i);
    }
    front_case_output(&p->run, sum);
    loop_graph *loops = front_case_before(&p->run, 4, "span_reduction");
    assert_string_equal(front_case_ops(loops), "exp/0 identity/0 mul/1 add/1");
    run_all(p, out, false);
    run_all(p, out, true);
    end(p);
}

// Steps that are not alike stay as they are.
static void reroll__other_steps_stay(void **state)
{
    (void)state;
    static const oddity odd[] = {ANOTHER_KERNEL, ONE_MORE, UNEVEN, READ_OUTSIDE};
    for (uint32_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        program *p = begin();
        make_sums(p, true, odd[i]);
        loop_graph *loops = front_case_before(&p->run, 4, "span_reduction");
        assert_int_equal(loops->tiles.count, 0);
        assert_true(loops->ops.count >= 2 * STEPS);
        end(p);
    }
}

// Marks that say nothing sensible are left out.
static void reroll__nonsense_stays(void **state)
{
    (void)state;
    static const char *const words[] = {"3:@9=4", "3:@x=4", "3:@0=100000", "3:@0=1", "3:@-1=4"};
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        program *p = begin();
        make_sums(p, true, ALIKE);
        for (uint32_t n = 1; n < p->run.graph->nodes.count; n++)
            assert_ok(spyre_graph_set_tiles(p->run.graph, n, words[i]));
        loop_graph *loops = front_case_before(&p->run, 4, "span_reduction");
        assert_int_equal(loops->tiles.count, 0);
        end(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reroll__the_sum_is_kept_in_place),
        cmocka_unit_test(reroll__loops_and_steps_give_the_same_bits),
        cmocka_unit_test(reroll__old_values_are_kept_while_they_are_read),
        cmocka_unit_test(reroll__invariants_stand_in_front),
        cmocka_unit_test(reroll__other_steps_stay),
        cmocka_unit_test(reroll__nonsense_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
