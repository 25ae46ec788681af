// SPDX-License-Identifier: Apache-2.0
//
// Buffers whose readers divide them otherwise than their writer: which go over the ring, what it
// costs, and that numbers stay.
#include "unit/check.h"

#include <math.h>

#include "front/check/invariant.h"
#include "front/cost/cost.h"
#include "front/cost/cost_shuffle.h"
#include "front/ir/lx_slices.h"
#include "front/plan/lx_shuffles.h"
#include "support/front_case.h"
#include "support/random_outputs.h"
#include "support/random_plan.h"
#include "support/rounds.h"

static void split(loop_op *op, uint32_t v, int32_t slices, int32_t core_stride)
{
    op->split[v] = slices;
    op->core_stride[v] = core_stride;
}

// exp(x), then abs of it, of 512 x 512: rows over 8 cores, then columns over 8.
static loop_graph *two_ops(front_run *run, const char *before)
{
    front_case_pair(run, "spyre.exp", "spyre.abs", sizes_view(2, 512, 512, 0));
    loop_graph *loops = front_case_before(run, 8, before);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t v = 0; v < 2; v++) split(&loops->ops.items[i], v, v == i ? 8 : 1, 1);
    return loops;
}

static void lx_shuffles__columns_of_what_was_made_by_rows(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = two_ops(&run, "lx_planning");
    bool changed;
    assert_ok(pass_lx_planning(loops, &changed));
    assert_int_equal(loops->ops.count, 3);
    const loop_op *shuffle = &loops->ops.items[1];
    assert_int_equal(shuffle->op, OPFUNC_SHUFFLE);
    assert_int_equal(shuffle->operand[0].buffer, loops->ops.items[0].operand[1].buffer);
    assert_int_equal(shuffle->operand[1].buffer, loops->ops.items[2].operand[0].buffer);
    assert_int_equal(shuffle->split[0], 1);
    assert_int_equal(shuffle->split[1], 8);
    assert_true(loops->buffers.items[shuffle->operand[0].buffer].in_lx);
    assert_true(loops->buffers.items[shuffle->operand[1].buffer].in_lx);
    loops->stage = STAGE_lx_planning;
    assert_ok(loop_verify(loops));
    front_run_end(&run);
}

static void lx_shuffles__taken_back(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    loop_graph *loops = two_ops(&run, "lx_planning");
    uint32_t between = loops->ops.items[0].operand[1].buffer;
    bool changed;
    assert_ok(pass_lx_planning(loops, &changed));
    assert_int_equal(loops->ops.count, 3);
    assert_ok(lx_shuffles_undo(loops));
    assert_int_equal(loops->ops.count, 2);
    assert_int_equal(loops->ops.items[1].op, OPFUNC_ABS);
    assert_int_equal(loops->ops.items[1].operand[0].buffer, between);
    front_run_end(&run);
}

static bool shuffles(front_run *run)
{
    bool changed;
    loop_graph *loops = two_ops(run, "lx_planning");
    assert_ok(pass_lx_planning(loops, &changed));
    uint32_t count = front_case_count(loops, OPFUNC_SHUFFLE);
    front_run_end(run);
    return count > 0;
}

static void lx_shuffles__not_when_left_out_or_without_room(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    run.settings.lx_planner_relayout = false;
    assert_false(shuffles(&run));
    run = front_run_begin();
    run.settings.lx_planning = false;
    assert_false(shuffles(&run));
    run = front_run_begin();
    run.settings.dxp_lx_frac_avail = 0.94; // 125,829 bytes: 64 KiB fit, twice that does not
    assert_false(shuffles(&run));
    run = front_run_begin();
    run.settings.dxp_lx_frac_avail = 0.93;
    assert_true(shuffles(&run));
}

// A row that all cores need, for three ops: the ring is cheaper than memory, and each gets its own.
static void lx_shuffles__what_all_cores_need(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view rows = sizes_view(2, 8, 64, 0), one = sizes_view(2, 1, 64, 0);
    uint32_t x = front_case_input(&run, rows), y = front_case_input(&run, one);
    uint32_t row = front_case_unary(&run, "spyre.exp", y, one);
    static const char *const ops[] = {"spyre.add", "spyre.sub", "spyre.mul"};
    for (int n = 0; n < 3; n++)
        front_case_output(&run, front_case_binary(&run, ops[n], x, row, rows));
    loop_graph *loops = front_case_before(&run, 2, "lx_planning");
    bool changed;
    assert_int_equal(loop_core_count(&loops->ops.items[0]), 1);
    assert_int_equal(loop_core_count(&loops->ops.items[1]), 2);
    assert_ok(pass_lx_planning(loops, &changed));
    const loop_op *shuffle = &loops->ops.items[1];
    assert_int_equal(shuffle->op, OPFUNC_SHUFFLE);
    assert_int_equal(front_case_count(loops, OPFUNC_SHUFFLE), 1);
    assert_int_equal(loop_core_count(shuffle), 2);
    assert_int_equal(shuffle->var_count, 2);
    assert_int_equal(shuffle->operand[1].stride[1], 0); // along the cores nothing moves
    front_run_end(&run);
}

// --- Cost

static void lx_shuffles__cost_of_rows_to_columns(void **state)
{
    (void)state;
    lx_slices to = lx_slices_undivided(), from = to;
    to.cores = from.cores = to.slices[0] = from.slices[1] = 8;
    shuffle_cost all = shuffle_cost_between(&from, &to, 1 << 19);
    // Each core sends and receives an eighth.
    assert_true(fabs(all.us - 2 * (1 << 19) / 8 / 192000.0) < 1e-9);
    assert_int_equal(all.messages, 16);
    // To where it is already.
    assert_true(fabs(shuffle_cost_between(&to, &to, 1 << 19).us - all.us) < 1e-9);
    assert_int_equal(shuffle_cost_between(&to, &to, 1 << 19).messages, 2);
    // Slices of 3 and 8 meet in 24 parts.
    from = lx_slices_undivided();
    from.cores = from.slices[0] = 3;
    assert_int_equal(shuffle_cost_between(&from, &to, 1 << 19).messages, 8 + 3);
}

static void lx_shuffles__graph_takes_less_time(void **state)
{
    (void)state;
    double us[2];
    for (int on = 0; on < 2; on++) {
        front_run run = front_run_begin();
        run.settings.lx_planner_relayout = on;
        loop_graph *loops = two_ops(&run, "lx_planning");
        bool changed;
        assert_ok(pass_lx_planning(loops, &changed));
        us[on] = cost_of_graph(loops);
        front_run_end(&run);
    }
    assert_true(us[1] < us[0]);
}

// --- Numbers

// Divides every op at random, whatever its neighbours do.
static bool divide(void *context, spyre_loops_point point, spyre_loops *loops)
{
    uint64_t state = *(uint64_t *)context;
    for (uint32_t i = 0; point == SPYRE_LOOPS_PRE_FUSION && i < loops->ops.count; i++)
        random_plan_divide_op(loops, &loops->ops.items[i], &state);
    return true;
}

static uint32_t run_graph(uint64_t seed)
{
    static const uint32_t cores[] = {2, 6, 8, 32};
    static const struct {
        front_engine engine;
        bool shuffles;
        double back_end; // share of LX
    } trials[] = {{FRONT_RUN_CARD_FAST, false, 0.2},  {FRONT_RUN_INTERPRETER, true, 0.2},
                  {FRONT_RUN_CARD_EXACT, true, 0.2},  {FRONT_RUN_CARD_FAST, true, 0.2},
                  {FRONT_RUN_CARD_FAST, true, 0.995}};
    enum { TRIALS = sizeof trials / sizeof trials[0] };
    random_outputs out = {.count = 0};
    random_graph *g = random_graph_begin(seed);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, random_sizes(g));
    for (uint32_t i = 0; i < 8; i++) random_step(g);
    random_outputs_choose(g, &out);
    g->run.loop_pass = divide;
    g->run.loop_context = &seed;
    uint32_t shuffled = 0;
    spyre_status status = NULL;
    for (uint32_t n = 0; n < TRIALS && out.count && !status; n++) {
        random_outputs_room(g, &out, n);
        g->run.settings.lx_planner_relayout = trials[n].shuffles;
        g->run.settings.dxp_lx_frac_avail = trials[n].back_end;
        status = front_run_execute(&g->run, cores[seed % 4], trials[n].engine, out.got[n], NULL);
        if (status && n)
            fail_msg("seed %llu, trial %u: %s", (unsigned long long)seed, n,
                     spyre_status_message(status));
        if (n == 1) shuffled = g->run.shuffled;
    }
    char problem[128];
    if (!status && random_outputs_differ(&out, TRIALS, problem))
        fail_msg("seed %llu: %s", (unsigned long long)seed, problem);
    spyre_status_free(status);
    random_graph_end(g);
    return shuffled;
}

static void lx_shuffles__random_divisions_give_the_same_bytes(void **state)
{
    (void)state;
    uint32_t shuffled = 0, graphs = test_rounds(80);
    for (uint64_t seed = 1; seed <= graphs; seed++) shuffled += run_graph(seed);
    assert_true(shuffled > graphs / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lx_shuffles__columns_of_what_was_made_by_rows),
        cmocka_unit_test(lx_shuffles__taken_back),
        cmocka_unit_test(lx_shuffles__not_when_left_out_or_without_room),
        cmocka_unit_test(lx_shuffles__what_all_cores_need),
        cmocka_unit_test(lx_shuffles__cost_of_rows_to_columns),
        cmocka_unit_test(lx_shuffles__graph_takes_less_time),
        cmocka_unit_test(lx_shuffles__random_divisions_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
