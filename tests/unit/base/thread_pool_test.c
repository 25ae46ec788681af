// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread_pool.h"

enum { LARGEST = 5000 };

typedef struct {
    atomic_uint calls[LARGEST];
    atomic_uint inside[THREAD_LARGEST_COUNT];
    atomic_uint clashes;
    uint32_t threads;
} counts;

static void count_call(void *context, size_t index, uint32_t worker)
{
    counts *c = context;
    if (worker >= c->threads || atomic_fetch_add(&c->inside[worker], 1) != 0)
        atomic_fetch_add(&c->clashes, 1);
    atomic_fetch_add(&c->calls[index], 1);
    if (worker < c->threads) atomic_fetch_sub(&c->inside[worker], 1);
}

static void assert_each_once(const counts *c, size_t count)
{
    for (size_t i = 0; i < LARGEST; i++) assert_int_equal(c->calls[i], i < count ? 1 : 0);
    assert_int_equal(c->clashes, 0);
}

static void thread__every_index_runs_once(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 16};
    static const size_t sizes[] = {0, 1, 2, 31, 32, 1000, LARGEST};
    counts *c = malloc(sizeof *c);
    for (size_t t = 0; t < 4; t++) {
        pool *workers;
        assert_ok(pool_create(threads[t], &workers));
        assert_int_equal(pool_threads(workers), threads[t]);
        for (size_t s = 0; s < 7; s++) {
            memset(c, 0, sizeof *c);
            c->threads = threads[t];
            pool_run(workers, sizes[s], count_call, c);
            assert_each_once(c, sizes[s]);
        }
        pool_destroy(workers);
    }
    free(c);
}

static void add_call(void *context, size_t index, uint32_t worker)
{
    (void)index, (void)worker;
    atomic_fetch_add((atomic_uint *)context, 1);
}

// Threads join runs late, after they have ended, or from their sleep.
static void thread__runs_in_quick_succession(void **state)
{
    (void)state;
    static const uint32_t threads[] = {2, 5};
    for (size_t t = 0; t < 2; t++) {
        pool *workers;
        assert_ok(pool_create(threads[t], &workers));
        for (unsigned run = 1; run <= 3000; run++) {
            atomic_uint calls = 0;      // of this run only: none may come later
            pool_run(workers, run % 7, add_call, &calls);
            assert_int_equal(calls, run % 7);
        }
        pool_destroy(workers);
    }
}

typedef struct {
    pool *workers;
    pool *other;
    atomic_uint done;
} nest;

static void count_leaf(void *context, size_t index, uint32_t worker)
{
    (void)index;
    (void)worker;
    atomic_fetch_add(&((nest *)context)->done, 1);
}

static void run_nested(void *context, size_t index, uint32_t worker)
{
    (void)worker;
    nest *n = context;
    pool_run(index % 2 ? n->workers : n->other, 10, count_leaf, n);
}

static void thread__nested_runs_finish(void **state)
{
    (void)state;
    nest n = {0};
    assert_ok(pool_create(3, &n.workers));
    assert_ok(pool_create(2, &n.other));
    for (int i = 0; i < 50; i++) pool_run(n.workers, 20, run_nested, &n);
    assert_int_equal(n.done, 50 * 20 * 10);
    pool_destroy(n.workers);
    pool_destroy(n.other);
}

static void *call_often(void *context)
{
    nest *n = context;
    for (int i = 0; i < 100; i++) {
        pool_run(n->workers, 7, count_leaf, n);
        pool_run(n->other, 3, run_nested, n);
    }
    return NULL;
}

static void thread__several_callers_take_turns(void **state)
{
    (void)state;
    nest n = {0};
    pthread_t callers[4];
    assert_ok(pool_create(2, &n.workers));
    assert_ok(pool_create(2, &n.other));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_often, &n), 0);
    for (int i = 0; i < 4; i++) pthread_join(callers[i], NULL);
    assert_int_equal(n.done, 4 * 100 * (7 + 3 * 10));
    pool_destroy(n.workers);
    pool_destroy(n.other);
}

// A team of some threads.
enum { TEAM_THREADS = 3 };

typedef struct {
    void (*body)(void *context);
    void *context;
} team_call;

static atomic_uint team_runs;

static void *call_body(void *argument)
{
    const team_call *call = argument;
    call->body(call->context);
    return NULL;
}

static bool run_in_team(void (*body)(void *context), void *context, uint32_t threads)
{
    pthread_t others[TEAM_THREADS];
    team_call call = {body, context};
    if (threads > TEAM_THREADS) return false;
    atomic_fetch_add(&team_runs, 1);
    for (uint32_t i = 1; i < threads; i++)
        assert_int_equal(pthread_create(&others[i], NULL, call_body, &call), 0);
    body(context);
    for (uint32_t i = 1; i < threads; i++) pthread_join(others[i], NULL);
    return true;
}

static void *run_without_team(void *context)
{
    assert_false(thread_has_team());
    pool_run(((nest *)context)->workers, 20, count_leaf, context);
    return NULL;
}

static bool run_late(void (*body)(void *context), void *context, uint32_t threads)
{
    struct timespec millisecond = {.tv_nsec = 1000000};
    bool ran = run_in_team(body, context, threads);
    nanosleep(&millisecond, NULL);
    return ran;
}

static void thread__a_late_team_rests(void **state)
{
    (void)state;
    pool *workers;
    atomic_uint calls = 0;
    assert_ok(pool_create(2, &workers));
    thread_use_team(run_late);
    atomic_store(&team_runs, 0);
    for (int run = 0; run < 100; run++) pool_run(workers, 8, add_call, &calls);
    assert_int_equal(calls, 100 * 8);
    assert_in_range(team_runs, 1, 50);
    thread_use_team(NULL);
    pool_destroy(workers);
}

// One that is too small leaves a run to the pool, and so does another thread; a run inside of one
// is the thread's own.
static void thread__runs_of_a_thread_are_its_team_s(void **state)
{
    (void)state;
    static const uint32_t threads[] = {2, TEAM_THREADS, TEAM_THREADS + 1};
    counts *c = malloc(sizeof *c);
    for (size_t t = 0; t < 3; t++) {
        nest n = {0};
        thread_use_team(run_in_team);
        assert_true(thread_has_team());
        pthread_t other;
        atomic_store(&team_runs, 0);
        assert_ok(pool_create(threads[t], &n.workers));
        assert_ok(pool_create(2, &n.other));
        memset(c, 0, sizeof *c);
        c->threads = threads[t];
        pool_run(n.workers, LARGEST, count_call, c);
        assert_each_once(c, LARGEST);
        thread_use_team(run_in_team);   // it may have been late, so that it would rest
        pool_run(n.workers, 20, run_nested, &n);
        assert_int_equal(n.done, 20 * 10);
        bool fits = threads[t] <= TEAM_THREADS;
        if (fits) assert_int_equal(team_runs, 2);
        uint32_t before = team_runs;
        assert_int_equal(pthread_create(&other, NULL, run_without_team, &n), 0);
        pthread_join(other, NULL);
        assert_int_equal(n.done, 20 * 10 + 20);
        assert_int_equal(team_runs, before);
        pool_destroy(n.workers);
        pool_destroy(n.other);
    }
    thread_use_team(NULL);
    assert_false(thread_has_team());
    free(c);
}

typedef struct {
    atomic_uint first[2];           // the index that each worker begins with, plus 1
} beginnings;

// Holds its thread until the other one has begun, for ten seconds at most.
static void begin_both(void *context, size_t index, uint32_t worker)
{
    beginnings *b = context;
    const struct timespec millisecond = {.tv_nsec = 1000000};
    unsigned none = 0;
    if (!atomic_compare_exchange_strong(&b->first[worker], &none, (unsigned)index + 1)) return;
    for (int n = 0; n < 10000 && !atomic_load(&b->first[1 - worker]); n++)
        nanosleep(&millisecond, NULL);
}

// So that what it made in one run is near it in the next.
static void thread__each_begins_with_its_own_range(void **state)
{
    (void)state;
    pool *workers;
    assert_ok(pool_create(2, &workers));
    for (int run = 0; run < 20; run++) {
        thread_use_team(run % 2 ? run_in_team : NULL);
        beginnings b = {0};
        pool_run(workers, 32, begin_both, &b);
        const unsigned low = b.first[0] < b.first[1] ? b.first[0] : b.first[1];
        assert_int_equal(low, 1);
        assert_int_equal(b.first[0] + b.first[1] - low, 17);
        if (run % 2 == 0) assert_int_equal(b.first[0], 1);
    }
    thread_use_team(NULL);
    pool_destroy(workers);
}

static void thread__count_comes_from_the_environment(void **state)
{
    (void)state;
    uint32_t count = 0;
    setenv("SPYRE_THREADS", "7", 1);
    assert_ok(thread_default_count(&count));
    assert_int_equal(count, 7);
    static const char *const wrong[] = {"0",  "257", "-1", "four",
                                        "2x", " 2",  "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("SPYRE_THREADS", wrong[i], 1);
        assert_error(thread_default_count(&count), SPYRE_INVALID_ARGUMENT,
                     "expected a number 1..256");
    }
    unsetenv("SPYRE_THREADS");
    assert_ok(thread_default_count(&count));
    assert_in_range(count, 1, THREAD_LARGEST_COUNT);
}

static void thread__pool_size_is_checked(void **state)
{
    (void)state;
    pool *workers = NULL;
    assert_error(pool_create(0, &workers), SPYRE_INVALID_ARGUMENT, "0 threads");
    assert_error(pool_create(257, &workers), SPYRE_INVALID_ARGUMENT, "257 threads");
    assert_null(workers);
    pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread__every_index_runs_once),
        cmocka_unit_test(thread__runs_in_quick_succession),
        cmocka_unit_test(thread__nested_runs_finish),
        cmocka_unit_test(thread__several_callers_take_turns),
        cmocka_unit_test(thread__runs_of_a_thread_are_its_team_s),
        cmocka_unit_test(thread__a_late_team_rests),
        cmocka_unit_test(thread__each_begins_with_its_own_range),
        cmocka_unit_test(thread__count_comes_from_the_environment),
        cmocka_unit_test(thread__pool_size_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
