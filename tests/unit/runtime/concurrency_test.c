// SPDX-License-Identifier: Apache-2.0
//
// Many threads at one context: the same executable and new ones, launches, transfers, events, frees
// and profiles at once, on two cards with several host threads each. Results stay those of one
// thread; the thread sanitizer (make test-tsan) sees races.
#include "unit/check.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/file.h"
#include "spyre/profile.h"
#include "support/journey.h"

#define GRAPHS SPYRE_TESTS_DIR "/golden/graph"

enum { THREADS = 6, ROUNDS = 12, MOST_GRAPHS = 64, SOURCE_BYTES = 1 << 20, CARDS = 2 };

typedef struct {
    const char *name, *source;
    spyre_executable *shared;
    uint64_t hash;
} sample;

static struct {
    spyre_context *context;
    sample samples[MOST_GRAPHS];
    uint32_t count;
} all;

typedef struct {
    uint32_t index;
    spyre_status status;
    const char *wrong;                  // the graph whose results differed
} visitor;

static spyre_status use_streams(uint32_t card)
{
    uint64_t from, to;
    spyre_event *event = NULL;
    uint32_t stream = spyre_stream_from_pool(all.context, card, card == 1);
    TRY(spyre_memory_allocate(all.context, card, stream, 8192, &from));
    spyre_status status = spyre_memory_allocate(all.context, card, stream, 8192, &to);
    if (status) {
        spyre_memory_free(all.context, card, from);
        return status;
    }
    TRY_DONE(spyre_copy_raw(all.context, card, stream, from, 0, 8192));
    TRY_DONE(spyre_event_record(all.context, card, stream, &event));
    TRY_DONE(spyre_event_wait(all.context, card, SPYRE_DEFAULT_STREAM, event));
    TRY_DONE(spyre_copy_raw(all.context, card, SPYRE_DEFAULT_STREAM, to, from, 8192));
    spyre_event_query(event);
    TRY_DONE(spyre_stream_synchronize(all.context, card, stream));
done:
    spyre_event_destroy(event);
    spyre_memory_free(all.context, card, from);
    spyre_memory_free(all.context, card, to);
    return status;
}

static spyre_status visit(visitor *self, const sample *s)
{
    uint64_t shared = 0, own = 0;
    TRY(journey_launch(all.context, s->shared, &shared));
    TRY(journey_run(s->source, s->name, 2, all.context, &own));
    if (shared != s->hash || own != s->hash) self->wrong = s->name;
    return use_streams(self->index % CARDS);
}

static void *visitor_main(void *argument)
{
    visitor *self = argument;
    spyre_memory_statistics statistics;
    spyre_activity record;
    for (uint32_t n = 0; n < ROUNDS && !self->status && !self->wrong; n++) {
        spyre_profile_enable(all.context, n % 2 == 0);
        spyre_profile_take(all.context, &record, 1);
        self->status = visit(self, &all.samples[(self->index + n) % all.count]);
        spyre_memory_read_statistics(all.context, 0, &statistics);
    }
    return NULL;
}

static void concurrency__results_are_those_of_one_thread(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    visitor visitors[THREADS] = {{0}};
    for (uint32_t i = 0; i < THREADS; i++) {
        visitors[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, visitor_main, &visitors[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_ok(visitors[i].status);
        if (visitors[i].wrong) fail_msg("%s: wrong results in thread %u", visitors[i].wrong, i);
    }
    spyre_memory_statistics after;
    assert_ok(spyre_card_synchronize(all.context, 0));
    spyre_memory_read_statistics(all.context, 0, &after);
    assert_int_equal(after.allocated_bytes, 0);
}

static void read_samples(arena *memory)
{
    file_names names = {0};
    assert_ok(file_list(memory, GRAPHS, ".graph", &names));
    assert_in_range(names.count, 1, MOST_GRAPHS);
    for (uint32_t i = 0; i < names.count; i++) {
        sample *s = &all.samples[all.count++];
        char *source;
        size_t length;
        assert_ok(file_read(memory, file_join(memory, GRAPHS, names.items[i]), SOURCE_BYTES,
                            &source, &length));
        s->name = names.items[i];
        s->source = source;
        assert_ok(journey_compile(source, s->name, 32, &s->shared));
        assert_ok(journey_launch(all.context, s->shared, &s->hash));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concurrency__results_are_those_of_one_thread),
    };
    if (setenv("SPYRE_THREADS", "3", 1) != 0) return EXIT_FAILURE;
    arena *memory = arena_create();
    assert_ok(spyre_context_create(CARDS, &all.context));
    read_samples(memory);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (uint32_t i = 0; i < all.count; i++) spyre_executable_destroy(all.samples[i].shared);
    spyre_context_destroy(all.context);
    arena_destroy(memory);
    return failed;
}
