// SPDX-License-Identifier: Apache-2.0
//
// Random graphs under other divisions: by default the bytes do not depend on the number of cores;
// nor on uneven slices; published divisions, which cut sums, mean the same to interpreter and card.
#include "unit/check.h"

#include "support/random_outputs.h"
#include "support/rounds.h"

typedef struct {
    uint32_t cores;
    front_engine engine;
    bool uneven;
} trial;

static random_graph *begin(uint64_t seed, random_outputs *out)
{
    random_graph *g = random_graph_begin(seed);
    random_input(g, random_chance(g, 85) ? SPYRE_DTYPE_F16 : SPYRE_DTYPE_F32, random_sizes(g));
    uint32_t steps = 1 + random_below(g, 6);
    for (uint32_t i = 0; i < steps; i++) random_step(g);
    *out = (random_outputs){.count = 0};
    random_outputs_choose(g, out);
    return g;
}

static void compare_trials(uint64_t seed, bool published, const trial *trials, uint32_t count)
{
    random_outputs out;
    random_graph *g = begin(seed, &out);
    text listing = {0};
    spyre_status status = NULL;
    g->run.settings.work_division = published;
    for (uint32_t i = 0; i < count && out.count && !status; i++) {
        random_outputs_room(g, &out, i);
        g->run.settings.uneven_splits = trials[i].uneven;
        status = front_run_execute(&g->run, trials[i].cores, trials[i].engine, out.got[i],
                                   i ? NULL : &listing);
        // Views that no layout expresses go to the host, whatever the division.
        if (status && i == 0 && spyre_status_code(status) == SPYRE_UNSUPPORTED) break;
        if (status)
            fail_msg("seed %llu: %s", (unsigned long long)seed, spyre_status_message(status));
    }
    char problem[128];
    if (!status && random_outputs_differ(&out, count, problem)) {
        fputs(text_string(&listing), stderr);
        fail_msg("seed %llu: %s", (unsigned long long)seed, problem);
    }
    spyre_status_free(status);
    text_free(&listing);
    random_graph_end(g);
}

static void random_division__bytes_do_not_depend_on_cores(void **state)
{
    (void)state;
    static const trial trials[] = {{1, FRONT_RUN_INTERPRETER, false},
                                   {2, FRONT_RUN_CARD_FAST, false},
                                   {5, FRONT_RUN_CARD_FAST, false},
                                   {32, FRONT_RUN_CARD_FAST, false},
                                   {32, FRONT_RUN_INTERPRETER, false}};
    for (uint64_t seed = 1; seed <= test_rounds(60); seed++)
        compare_trials(seed, false, trials, 5);
    compare_trials(680, false, trials, 5); // a core's slice in LX is one stick of several
}

static void random_division__published_splits_of_sums(void **state)
{
    (void)state;
    static const trial trials[] = {{32, FRONT_RUN_INTERPRETER, false},
                                   {32, FRONT_RUN_CARD_EXACT, false},
                                   {32, FRONT_RUN_CARD_FAST, false}};
    for (uint64_t seed = 1; seed <= test_rounds(60); seed++)
        compare_trials(seed, true, trials, 3);
}

static void random_division__bytes_do_not_depend_on_uneven_slices(void **state)
{
    (void)state;
    static const trial trials[] = {{1, FRONT_RUN_INTERPRETER, false},
                                   {4, FRONT_RUN_INTERPRETER, true},
                                   {4, FRONT_RUN_CARD_EXACT, true},
                                   {7, FRONT_RUN_CARD_FAST, true},
                                   {32, FRONT_RUN_CARD_FAST, true}};
    for (uint64_t seed = 1; seed <= test_rounds(60); seed++)
        compare_trials(seed, false, trials, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_division__bytes_do_not_depend_on_cores),
        cmocka_unit_test(random_division__published_splits_of_sums),
        cmocka_unit_test(random_division__bytes_do_not_depend_on_uneven_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
