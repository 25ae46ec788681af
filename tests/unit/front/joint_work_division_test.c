// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <math.h>

#include "front/cost/cost.h"
#include "front/ir/def_use.h"
#include "front/ir/lx_slices.h"
#include "support/front_case.h"

// Reads of local buffers, and those that see the buffer divided as its writer does.
static void count_reads(const loop_graph *loops, uint32_t *out_reads, uint32_t *out_agree)
{
    def_use f;
    *out_reads = *out_agree = 0;
    assert_ok(def_use_build(loops, &f));
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        if (!def_use_is_written_once(&f, b)) continue;
        const loop_op *writer = &loops->ops.items[f.writer[b]];
        lx_slices written = lx_slices_of(loops, writer, writer->operand_count - 1);
        for (uint32_t u = f.first_use[b]; u < f.first_use[b + 1]; u++) {
            const loop_op *reader = &loops->ops.items[f.uses[u].op];
            lx_slices read = lx_slices_of(loops, reader, f.uses[u].operand);
            (*out_reads)++;
            *out_agree += lx_slices_serves(&written, &read);
        }
    }
}

static void assert_agreement(const loop_graph *loops, uint32_t reads, uint32_t agree)
{
    uint32_t got_reads, got_agree;
    count_reads(loops, &got_reads, &got_agree);
    assert_int_equal(got_reads, reads);
    assert_int_equal(got_agree, agree);
}

// softmax over the last dim of [rows, columns].
static uint32_t softmax(front_run *run, uint32_t x, int64_t rows, int64_t columns)
{
    spyre_view view = sizes_view(2, rows, columns, 0), row = sizes_view(2, rows, 1, 0);
    uint32_t top = front_case_reduce(run, "spyre.max", x, 1, row);
    uint32_t e = front_case_unary(run, "spyre.exp",
                                  front_case_binary(run, "spyre.sub", x, top, view), view);
    uint32_t sum = front_case_reduce(run, "spyre.sum", e, 1, row);
    return front_case_binary(run, "spyre.realdiv", e, sum, view);
}

// By size, the element-wise ops would take the columns and the reductions the rows.
static void joint_work_division__softmax_by_rows(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 32, 8192, 0);
    front_case_output(&run, softmax(&run, front_case_input(&run, view), 32, 8192));
    loop_graph *loops = front_case_before(&run, 32, "joint_work_division");
    assert_agreement(loops, 5, 2);
    bool changed;
    assert_ok(pass_joint_work_division(loops, &changed));
    assert_true(changed);
    assert_ok(loop_verify(loops));
    assert_agreement(loops, 5, 5);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        assert_int_equal(loops->ops.items[i].split[0], 32);
        assert_int_equal(loop_core_count(&loops->ops.items[i]), 32);
    }
    front_run_end(&run);
}

// An op that only memory surrounds keeps most of its cores: of fewer, which have more tiles, a
// little more of the first load overlaps, and nothing else is gained.
static void joint_work_division__ops_in_memory_keep_cores(void **state)
{
    (void)state;
    const spyre_view views[] = {sizes_view(3, 64, 64, 256), sizes_view(2, 1024, 1024, 0)};
    for (uint32_t n = 0; n < sizeof views / sizeof *views; n++) {
        front_run run = front_run_begin();
        uint32_t x = front_case_input(&run, views[n]);
        front_case_output(&run, front_case_unary(&run, "spyre.neg", x, views[n]));
        loop_graph *loops = front_case_before(&run, 32, "joint_work_division");
        bool changed;
        assert_ok(pass_joint_work_division(loops, &changed));
        assert_true(loop_core_count(&loops->ops.items[0]) >= 16);
        front_run_end(&run);
    }
}

// One core could take the maximum as quickly from memory; with a clone of x in LX all readers
// agree.
static void joint_work_division__readers_of_a_clone_agree(void **state)
{
    (void)state;
    double us[2];
    for (int clones = 0; clones < 2; clones++) {
        front_run run = front_run_begin();
        run.settings.lx_boundary_clones = clones;
        uint32_t x = front_case_input(&run, sizes_view(2, 4096, 2048, 0));
        front_case_output(&run, softmax(&run, x, 4096, 2048));
        const loop_graph *loops = front_case_before(&run, 32, NULL);
        us[clones] = cost_of_graph(loops);
        assert_int_equal(front_case_count(loops, OPFUNC_IDENTITY), clones);
        for (uint32_t i = 0; clones && i < loops->ops.count; i++)
            assert_int_equal(loop_core_count(&loops->ops.items[i]), 32);
        front_run_end(&run);
    }
    assert_true(us[1] < 0.7 * us[0]);
}

// linear, bias, gelu, linear: one division of the rows where nothing goes over the ring.
static void joint_work_division__feed_forward_by_rows(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    run.settings.lx_planner_relayout = false;
    spyre_view wide = sizes_view(2, 256, 4096, 0), narrow = sizes_view(2, 256, 1024, 0);
    uint32_t x = front_case_input(&run, narrow);
    uint32_t up = front_case_input(&run, sizes_view(2, 1024, 4096, 0));
    uint32_t down = front_case_input(&run, sizes_view(2, 4096, 1024, 0));
    uint32_t bias = front_case_input(&run, sizes_view(1, 4096, 0, 0));
    uint32_t h = front_case_binary(&run, "spyre.batchmatmul", x, up, wide);
    h = front_case_binary(&run, "spyre.add", h, bias, wide);
    h = front_case_unary(&run, "spyre.gelufwd", h, wide);
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", h, down, narrow));
    loop_graph *loops = front_case_before(&run, 32, "memory_planning");
    assert_agreement(loops, 3, 3);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        assert_int_equal(loop_core_count(&loops->ops.items[i]), 32);
    front_run_end(&run);
}

// Two products of `rows` rows with a function between them; ends with the plan and its time.
static loop_graph *plan_products(front_run *run, int64_t rows, int64_t size, int64_t inner,
                                 const char *between, double *out_us)
{
    spyre_view wide = sizes_view(2, rows, inner, 0), narrow = sizes_view(2, rows, size, 0);
    uint32_t x = front_case_input(run, narrow);
    uint32_t up = front_case_input(run, sizes_view(2, size, inner, 0));
    uint32_t down = front_case_input(run, sizes_view(2, inner, size, 0));
    uint32_t h = front_case_binary(run, "spyre.batchmatmul", x, up, wide);
    h = front_case_unary(run, between, h, wide);
    front_case_output(run, front_case_binary(run, "spyre.batchmatmul", h, down, narrow));
    loop_graph *loops = front_case_before(run, 32, NULL);
    *out_us = cost_of_graph(loops);
    return loops;
}

// With the ring every product takes the division that it likes, and what is between them moves.
static void joint_work_division__shuffles_are_priced(void **state)
{
    (void)state;
    double us[3];
    for (int variant = 0; variant < 3; variant++) {
        front_run run = front_run_begin();
        int shuffles = variant > 0;
        run.settings.lx_planner_relayout = shuffles;
        run.settings.uneven_splits = variant == 2; // equal slices go over the ring then, too
        loop_graph *loops = plan_products(&run, 512, 512, 2048, "spyre.gelufwd", &us[variant]);
        assert_int_equal(front_case_count(loops, OPFUNC_SHUFFLE), shuffles);
        front_run_end(&run);
    }
    assert_true(us[1] < 0.9 * us[0]);
    assert_true(us[2] <= us[1]);
}

// Messages that save less than predicted times are true to are not sent.
static void joint_work_division__messages_have_to_save(void **state)
{
    (void)state;
    double us[2];
    for (int shuffles = 0; shuffles < 2; shuffles++) {
        front_run run = front_run_begin();
        run.settings.lx_planner_relayout = shuffles;
        loop_graph *loops = plan_products(&run, 64, 256, 512, "spyre.relufwd", &us[shuffles]);
        assert_int_equal(front_case_count(loops, OPFUNC_SHUFFLE), 0);
        front_run_end(&run);
    }
    assert_true(fabs(us[1] - us[0]) <= us[0] * 1e-9);
}

// What two products read has one form for both, in which several cores have the same rows.
static void joint_work_division__products_share_rows(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view rows = sizes_view(2, 512, 4096, 0), square = sizes_view(2, 4096, 4096, 0);
    uint32_t x = front_case_unary(&run, "spyre.exp", front_case_input(&run, rows), rows);
    for (int n = 0; n < 2; n++)
        front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", x,
                                                  front_case_input(&run, square), rows));
    loop_graph *loops = front_case_before(&run, 32, NULL);
    assert_int_equal(front_case_count(loops, OPFUNC_SHUFFLE), 1);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        if (op->op == OPFUNC_SHUFFLE) assert_int_equal(op->var_count, 3);
        if (op->op != OPFUNC_BATCHMATMUL) continue;
        assert_true(loops->buffers.items[op->operand[0].buffer].in_lx);
        assert_int_equal(op->split[0], 8);
    }
    front_run_end(&run);
}

// Whatever room LX has, a plan with shuffles is not dearer than one without.
static void joint_work_division__shuffles_do_not_cost(void **state)
{
    (void)state;
    static const double back_end[] = {0.2, 0.7, 0.9, 0.95, 0.98};
    for (uint32_t n = 0; n < sizeof back_end / sizeof *back_end; n++) {
        double us[2];
        for (int shuffles = 0; shuffles < 2; shuffles++) {
            front_run run = front_run_begin();
            run.settings.dxp_lx_frac_avail = back_end[n];
            run.settings.lx_planner_relayout = shuffles;
            spyre_view wide = sizes_view(2, 512, 2048, 0), narrow = sizes_view(2, 512, 512, 0);
            uint32_t up = front_case_input(&run, sizes_view(2, 512, 2048, 0));
            uint32_t down = front_case_input(&run, sizes_view(2, 2048, 512, 0));
            uint32_t x = softmax(&run, front_case_input(&run, narrow), 512, 512);
            uint32_t h = front_case_binary(&run, "spyre.batchmatmul", x, up, wide);
            h = front_case_unary(&run, "spyre.gelufwd", h, wide);
            h = front_case_binary(&run, "spyre.batchmatmul", h, down, narrow);
            front_case_output(&run, front_case_binary(&run, "spyre.add", h, x, narrow));
            us[shuffles] = cost_of_graph(front_case_before(&run, 32, NULL));
            front_run_end(&run);
        }
        assert_true(us[1] <= us[0] * (1 + 1e-9));
    }
}

// scores, scale, softmax, times V for every head of a batch: the batch of heads is divided.
static void joint_work_division__attention_by_heads(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view heads = sizes_view(3, 32, 128, 64), turned = sizes_view(3, 32, 64, 128);
    spyre_view scores = sizes_view(3, 32, 128, 128), row = sizes_view(3, 32, 128, 1);
    uint32_t q = front_case_input(&run, heads), k = front_case_input(&run, turned);
    uint32_t v = front_case_input(&run, heads);
    uint32_t s = front_case_binary(&run, "spyre.batchmatmul", q, k, scores);
    s = front_case_binary(&run, "spyre.mul", s, front_case_constant(&run, 0.125), scores);
    uint32_t top = front_case_reduce(&run, "spyre.max", s, 2, row);
    uint32_t e = front_case_unary(&run, "spyre.exp",
                                  front_case_binary(&run, "spyre.sub", s, top, scores), scores);
    uint32_t sum = front_case_reduce(&run, "spyre.sum", e, 2, row);
    uint32_t p = front_case_binary(&run, "spyre.realdiv", e, sum, scores);
    front_case_output(&run, front_case_binary(&run, "spyre.batchmatmul", p, v, heads));
    loop_graph *loops = front_case_before(&run, 32, "memory_planning");
    uint32_t reads, agree;
    count_reads(loops, &reads, &agree);
    assert_int_equal(reads, agree);
    assert_true(reads >= 8);
    for (uint32_t i = 0; i < loops->ops.count; i++)
        assert_int_equal(loop_core_count(&loops->ops.items[i]), 32);
    front_run_end(&run);
}

// 12 rows and 6 columns of sticks: two loops share the cores, numbered alike in all ops.
static void joint_work_division__two_loops_number_cores_alike(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 12, 384, 0);
    uint32_t x = front_case_unary(&run, "spyre.exp", front_case_input(&run, view), view);
    spyre_view turned = {.rank = 2, .size = {384, 12}, .stride = {1, 384}};
    uint32_t y = front_run_view(&run, x, SPYRE_DTYPE_F16, turned);
    front_case_output(&run, front_case_unary(&run, "spyre.neg", y, turned));
    loop_graph *loops = front_case_before(&run, 32, "memory_planning");
    assert_agreement(loops, 1, 1);
    assert_int_equal(loop_core_count(&loops->ops.items[0]), 24);
    front_run_end(&run);
}

static void joint_work_division__nothing_for_published_or_one_core(void **state)
{
    (void)state;
    for (uint32_t cores = 1; cores <= 32; cores += 31) {
        front_run run = front_run_begin();
        spyre_view view = sizes_view(2, 32, 8192, 0);
        front_case_output(&run, softmax(&run, front_case_input(&run, view), 32, 8192));
        loop_graph *loops = front_case_before(&run, cores, "joint_work_division");
        bool changed = true;
        loops->settings.work_division = cores > 1;
        assert_ok(pass_joint_work_division(loops, &changed));
        assert_false(changed);
        front_run_end(&run);
    }
}

// Without LX there is nothing to gain.
static void joint_work_division__no_lx_no_change(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    spyre_view view = sizes_view(2, 32, 8192, 0);
    front_case_output(&run, softmax(&run, front_case_input(&run, view), 32, 8192));
    loop_graph *loops = front_case_before(&run, 32, "joint_work_division");
    bool changed = true;
    loops->settings.lx_planning = false;
    assert_ok(pass_joint_work_division(loops, &changed));
    assert_false(changed);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joint_work_division__softmax_by_rows),
        cmocka_unit_test(joint_work_division__ops_in_memory_keep_cores),
        cmocka_unit_test(joint_work_division__readers_of_a_clone_agree),
        cmocka_unit_test(joint_work_division__feed_forward_by_rows),
        cmocka_unit_test(joint_work_division__shuffles_are_priced),
        cmocka_unit_test(joint_work_division__messages_have_to_save),
        cmocka_unit_test(joint_work_division__products_share_rows),
        cmocka_unit_test(joint_work_division__shuffles_do_not_cost),
        cmocka_unit_test(joint_work_division__attention_by_heads),
        cmocka_unit_test(joint_work_division__two_loops_number_cores_alike),
        cmocka_unit_test(joint_work_division__nothing_for_published_or_one_core),
        cmocka_unit_test(joint_work_division__no_lx_no_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
