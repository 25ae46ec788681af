// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "estimate/timeline.h"

#define C TIMELINE_CARD
#define L TIMELINE_LINK

static timeline_result simulate(const timeline_stage *stages, uint32_t count, uint32_t batches,
                                uint32_t rounds, bool exclusive)
{
    timeline_result found;
    assert_ok(timeline_simulate(stages, count, batches, rounds, exclusive, &found));
    return found;
}

static void assert_times(timeline_result found, double us, double card, double link, double hidden)
{
    bool good = found.us == us && found.card_us == card && found.link_us == link &&
                found.hidden_us == hidden;
    if (!good)
        print_error("%g us: card %g, link %g, hidden %g\n", found.us, found.card_us, found.link_us,
                    found.hidden_us);
    assert_true(good);
}

// 0123456789
// AAAALLAAAA      one: nothing hides its exchange
// AAAABBBBAAAABBBB two: each hides the other's
static void timeline__work_of_another_batch_hides_an_exchange(void **state)
{
    (void)state;
    const timeline_step steps[] = {{C, 4}, {L, 2}, {C, 4}};
    const timeline_stage stage = {steps, 3};
    assert_times(simulate(&stage, 1, 1, 1, false), 10, 8, 2, 0);
    assert_times(simulate(&stage, 1, 2, 1, false), 16, 16, 4, 4);
    assert_times(simulate(&stage, 1, 2, 1, true), 20, 16, 4, 0);
}

// A pipeline of equal stages: batches + stages - 1 steps; of several rounds, as many as batches.
static void timeline__fills_and_keeps_a_pipeline(void **state)
{
    (void)state;
    const timeline_step steps[] = {{C, 3}};
    const timeline_stage stages[] = {{steps, 1}, {steps, 1}, {steps, 1}, {steps, 1}};
    assert_times(simulate(stages, 4, 6, 1, false), 27, 18, 0, 0);
    assert_times(simulate(stages, 4, 4, 5, false), 12, 12, 0, 0);
    assert_times(simulate(stages, 4, 1, 5, false), 12, 3, 0, 0);    // three of four stages idle
}

static void timeline__names_the_busiest_stage(void **state)
{
    (void)state;
    const timeline_step fast[] = {{C, 1}}, slow[] = {{C, 2}, {L, 1}};
    const timeline_stage stages[] = {{fast, 1}, {slow, 2}, {fast, 1}};
    timeline_result found = simulate(stages, 3, 8, 1, true);
    assert_int_equal(found.stage, 1);
    assert_times(found, 1 + 8 * 2 + 1 + 1, 16, 8, 7);   // the hand-over lies beside the next
}

static void timeline__refuses_a_stage_without_steps(void **state)
{
    (void)state;
    timeline_result found;
    assert_error(timeline_simulate(&(timeline_stage){NULL, 0}, 1, 1, 1, false, &found),
                 SPYRE_INVALID_ARGUMENT, "stage 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeline__work_of_another_batch_hides_an_exchange),
        cmocka_unit_test(timeline__fills_and_keeps_a_pipeline),
        cmocka_unit_test(timeline__names_the_busiest_stage),
        cmocka_unit_test(timeline__refuses_a_stage_without_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
