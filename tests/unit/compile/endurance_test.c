// SPDX-License-Identifier: Apache-2.0
//
// Compile, launch and free the same graphs over and over: the process does not grow, every round
// has the same results. Sanitizers keep freed memory: under them leaks show at the end instead.
#include "unit/check.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "support/journey.h"
#include "support/rounds.h"

#define GRAPHS SPYRE_TESTS_DIR "/golden/graph"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = true, WARM_UP = 20 };
#else
enum { SANITIZED = false, WARM_UP = 200 };
#endif

enum { ROUNDS = 2000, MOST_GRAPHS = 64, SOURCE_BYTES = 1 << 20, CORES = 2 };

// What may come and go between rounds: blocks that the allocator keeps, pages of the card that a
// buffer at another address touches first.
#define MOST_GROWTH_BYTES (2LL << 20)

typedef struct {
    const char *name, *source;
    uint64_t hash;
} sample;

static int64_t resident_bytes(void)
{
    long unused, pages = 0;
    malloc_trim(0);                             // what is free counts no more
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &unused, &pages) != 2) fail_msg("no /proc/self/statm");
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static uint32_t read_samples(arena *memory, sample *out)
{
    file_names names = {0};
    assert_ok(file_list(memory, GRAPHS, ".graph", &names));
    assert_in_range(names.count, 1, MOST_GRAPHS);
    for (uint32_t i = 0; i < names.count; i++) {
        char *source;
        size_t length;
        assert_ok(file_read(memory, file_join(memory, GRAPHS, names.items[i]), SOURCE_BYTES,
                            &source, &length));
        out[i] = (sample){.name = names.items[i], .source = source};
    }
    return names.count;
}

static void run_round(spyre_context *context, sample *s)
{
    uint64_t hash;
    assert_ok(journey_run(s->source, s->name, CORES, context, &hash));
    if (!s->hash) s->hash = hash;
    if (hash != s->hash) fail_msg("%s: results differ between rounds", s->name);
}

static void endurance__memory_is_flat(void **state)
{
    (void)state;
    sample samples[MOST_GRAPHS];
    spyre_context *context;
    spyre_memory_statistics before, after;
    arena *memory = arena_create();
    uint32_t count = read_samples(memory, samples);
    int64_t rounds = WARM_UP + test_rounds(ROUNDS), start = 0;
    assert_ok(spyre_context_create(1, &context));
    for (int64_t n = 0; n < rounds; n++) {
        if (n == WARM_UP) {
            start = resident_bytes();
            spyre_memory_read_statistics(context, 0, &before);
        }
        run_round(context, &samples[n % count]);
    }
    int64_t growth = resident_bytes() - start;
    spyre_memory_read_statistics(context, 0, &after);
    assert_int_equal(before.allocated_bytes, after.allocated_bytes);
    assert_int_equal(before.reserved_bytes, after.reserved_bytes);
    print_message("%lld rounds: %lld kB at round %d, %+lld kB since\n", (long long)rounds,
                  (long long)start / 1024, WARM_UP, (long long)growth / 1024);
    assert_true(SANITIZED || growth <= MOST_GROWTH_BYTES);
    spyre_context_destroy(context);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(endurance__memory_is_flat)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
