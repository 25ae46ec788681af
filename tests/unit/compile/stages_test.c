// SPDX-License-Identifier: Apache-2.0
//
// The texts of an executable that several threads share.
#include "unit/check.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/text.h"
#include "spyre/compile.h"

enum { THREADS = 4, ROUNDS = 8 };

static const char source[] =
    "input %x: f16[256, 128]\n"
    "%p = aten._softmax.default(%x, -1, false) -> f16[256, 128] @ \"softmax.py:1\"\n"
    "return %p\n";

static const char *const stages[] = {"graph", "loop", "opspec", "cost",   "splits",
                                     "why",   "lx",   "bundle", "listing"};

enum { STAGE_COUNT = sizeof stages / sizeof *stages };

static spyre_executable *compile(void)
{
    spyre_graph *graph;
    spyre_executable *e;
    assert_ok(spyre_graph_parse(source, "source", &graph));
    assert_ok(spyre_compile(graph, NULL, &e));
    spyre_graph_destroy(graph);
    return e;
}

static void *read_all(void *executable)
{
    text all = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < STAGE_COUNT; i++) {
            char *content;
            if (spyre_executable_text(executable, 0, stages[i], &content)) return NULL;
            if (round == 0) text_append(&all, content);
            spyre_string_free(content);
        }
    return all.bytes;
}

static void stages__threads_may_ask_at_a_time(void **state)
{
    (void)state;
    spyre_executable *e = compile();
    pthread_t threads[THREADS];
    void *texts[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, read_all, e), 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], &texts[t]);
    for (int t = 0; t < THREADS; t++) {
        assert_non_null(texts[t]);
        assert_string_equal(texts[t], texts[0]);
    }
    for (int t = 0; t < THREADS; t++) free(texts[t]);
    spyre_executable_destroy(e);
}

static void stages__what_is_not_there_is_named(void **state)
{
    (void)state;
    spyre_executable *e = compile();
    char *content;
    assert_error(spyre_executable_text(e, 0, "loops", &content), SPYRE_INVALID_ARGUMENT,
                 "stage 'loops': expected one of graph, loop, opspec, ");
    assert_null(content);
    assert_error(spyre_executable_text(e, 1, "loop", &content), SPYRE_INVALID_ARGUMENT,
                 "segment 1 of 1");
    spyre_executable_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages__threads_may_ask_at_a_time),
        cmocka_unit_test(stages__what_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
