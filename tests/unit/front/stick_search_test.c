// SPDX-License-Identifier: Apache-2.0
//
// The global choice of sticks against every possible choice, on small random graphs, and against
// the greedy one on larger ones.
#include "unit/check.h"

#include "front/layout/stick_report.h"
#include "support/front_case.h"
#include "support/random_outputs.h"
#include "support/rounds.h"

enum { MOST_CHOICES = 1500 };

typedef struct {
    random_graph *g;
    arena *scratch;
    loop_graph *loops; // before propagate_layouts; null when the front refuses the graph
} fixture;

static bool ok(spyre_status status)
{
    if (!status) return true;
    assert_int_equal(spyre_status_code(status), SPYRE_UNSUPPORTED);
    spyre_status_free(status);
    return false;
}

static fixture begin(uint64_t seed, uint32_t steps, bool lx)
{
    static uint32_t node;
    bool changed;
    fixture f = {.g = random_graph_begin(seed), .scratch = arena_create()};
    random_input(f.g, SPYRE_DTYPE_F16, random_sizes(f.g));
    for (uint32_t i = 0; i < steps; i++) random_step(f.g);
    random_outputs out = {.count = 0};
    random_outputs_choose(f.g, &out);
    loop_graph *loops;
    if (!out.count || !ok(front_build(f.g->run.graph, f.g->run.memory, &node, &loops))) return f;
    loops->settings = f.g->run.settings;
    loops->settings.lx_planning = lx;
    bool fits = ok(pass_deadcode(loops, &changed)) && ok(pass_dedup_constants(loops, &changed)) &&
                ok(pass_normalize_loops(loops, &changed));
    if (fits) f.loops = loops;
    return f;
}

static void end(fixture *f)
{
    arena_destroy(f->scratch);
    random_graph_end(f->g);
}

// The least price of all choices of modes; false when there are too many to try.
static bool try_all(const fixture *f, double *out_least)
{
    uint32_t count = f->loops->ops.count, *at = ARENA_NEW(f->scratch, uint32_t, count);
    stick_mode_list *modes = ARENA_NEW(f->scratch, stick_mode_list, count);
    stick_mode *chosen = ARENA_NEW(f->scratch, stick_mode, count);
    const uint16_t *writable;
    double choices = 1;
    assert_ok(stick_writable(f->loops, &writable));
    for (uint32_t i = 0; i < count; i++) {
        const loop_op *op = &f->loops->ops.items[i];
        stick_modes_of(f->loops, op, writable[op->operand[op->operand_count - 1].buffer],
                       &modes[i]);
        choices *= modes[i].count;
    }
    *out_least = INFINITY;
    if (choices > MOST_CHOICES) return false;
    for (uint32_t left = (uint32_t)choices; left > 0; left--) {
        double us;
        for (uint32_t i = 0; i < count; i++) chosen[i] = modes[i].items[at[i]];
        assert_ok(stick_price_modes(f->loops, f->scratch, chosen, &us));
        if (us < *out_least) *out_least = us;
        for (uint32_t i = 0; i < count && ++at[i] == modes[i].count; i++) at[i] = 0;
    }
    return true;
}

static void assert_same_us(uint64_t seed, double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("seed %llu: %.17g us instead of %.17g", (unsigned long long)seed, a, b);
}

static void stick_search__finds_the_optimum(void **state)
{
    (void)state;
    uint32_t compared = 0, better = 0, graphs = test_rounds(400);
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        const stick_mode *modes;
        stick_choice choice;
        double least;
        fixture f = begin(seed, 1 + (uint32_t)(seed % 5), seed % 2);
        if (f.loops && try_all(&f, &least)) {
            f.loops->settings.stick_beam_width = 65536;
            bool possible = ok(stick_choose(f.loops, f.scratch, &modes, &choice));
            assert_true(possible || isinf(least));
            if (possible) {
                assert_int_equal(choice.left_out, 0);
                if (choice.global) assert_same_us(seed, choice.us, least);
                assert_true(choice.us * (1 - STICK_LEAST_GAIN) <= least * (1 + 1e-9));
                compared++;
                better += choice.global;
            }
        }
        end(&f);
    }
    assert_in_range(compared, graphs / 3, graphs);
    assert_in_range(better, graphs / 50, graphs);
}

static double output_us(const loop_graph *loops)
{
    double us = 0;
    for (uint32_t b = 0; b < loops->buffers.count; b++) {
        const loop_buffer *buffer = &loops->buffers.items[b];
        if (buffer->kind != LOOP_LOCAL || !buffer->has_layout) continue;
        us += stick_output_us(loops, buffer,
                              buffer->stick == LOOP_NO_DIM ? STICK_SPARSE : buffer->stick);
    }
    return us;
}

// Never dearer than greedy, whatever the width, and what is predicted is what is built.
static void stick_search__is_never_worse_than_greedy(void **state)
{
    (void)state;
    uint32_t built = 0, better = 0, graphs = test_rounds(200);
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        static const uint32_t widths[] = {1, 2, 16, 4096};
        const stick_mode *modes;
        stick_choice choice;
        bool changed;
        fixture f = begin(seed, 6 + (uint32_t)(seed % 12), false);
        if (f.loops) {
            f.loops->settings.stick_beam_width = widths[seed % 4];
            if (ok(stick_choose(f.loops, f.scratch, &modes, &choice)) && !isinf(choice.us)) {
                assert_true(choice.us <= choice.greedy_us);
                assert_true(choice.least_us <= choice.us * (1 + 1e-9));
                assert_ok(pass_propagate_layouts(f.loops, &changed));
                assert_ok(loop_verify(f.loops));
                assert_same_us(seed, stick_planned_us(f.loops) + output_us(f.loops), choice.us);
                built++;
                better += choice.global;
            }
        }
        end(&f);
    }
    assert_in_range(built, graphs / 3, graphs);
    assert_in_range(better, graphs / 20, graphs);
}

// Both operands of the sum come with their sticks along the rows; op by op the first exp keeps
// that, and the matmul behind the second turns it back.
static loop_graph *turned_twice(front_run *run)
{
    spyre_view wide = sizes_view(2, 64, 128, 0), turned = {2, {128, 64}, {1, 128}, 0};
    spyre_view square = sizes_view(2, 128, 128, 0);
    uint32_t x = front_case_input(run, wide), w = front_case_input(run, wide);
    uint32_t t = front_run_view(run, x, SPYRE_DTYPE_F16, turned);
    uint32_t e = front_case_unary(run, "spyre.exp", t, sizes_view(2, 128, 64, 0));
    uint32_t n = front_case_unary(run, "spyre.neg", e, sizes_view(2, 128, 64, 0));
    front_case_output(run, n);
    front_case_output(run, front_case_binary(run, "spyre.batchmatmul", n, w, square));
    front_case_output(run, front_case_unary(run, "spyre.abs", e, sizes_view(2, 128, 64, 0)));
    return front_case_before(run, 32, "propagate_layouts");
}

static void stick_search__the_report_names_every_alternative(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    arena *scratch = arena_create();
    loop_graph *loops = turned_twice(&run);
    const stick_mode *modes;
    stick_choice choice;
    const char *report;
    assert_ok(stick_choose(loops, scratch, &modes, &choice));
    assert_ok(stick_report(loops, scratch, modes, &choice, &report));
    assert_non_null(strstr(report, "// sticks: predicted "));
    assert_non_null(strstr(report, "// no choice costs 1 % less"));
    assert_non_null(strstr(report, " exp\n//     c1: "));
    assert_non_null(strstr(report, "<- chosen\n//     sparse: "));
    arena_destroy(scratch);
    front_run_end(&run);
}

static void stick_search__the_setting_turns_it_off(void **state)
{
    (void)state;
    front_run run = front_run_begin();
    run.settings.global_stick_optimizer = false;
    arena *scratch = arena_create();
    loop_graph *loops = turned_twice(&run);
    const stick_mode *modes;
    stick_choice choice;
    assert_ok(stick_choose(loops, scratch, &modes, &choice));
    assert_false(choice.global);
    assert_true(choice.us == choice.greedy_us);
    assert_int_equal(choice.widest, 0);
    arena_destroy(scratch);
    front_run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stick_search__finds_the_optimum),
        cmocka_unit_test(stick_search__is_never_worse_than_greedy),
        cmocka_unit_test(stick_search__the_report_names_every_alternative),
        cmocka_unit_test(stick_search__the_setting_turns_it_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
