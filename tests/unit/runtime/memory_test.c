// SPDX-License-Identifier: Apache-2.0
//
// Card memory that is freed and taken again while tasks are under way. A gate is a task that ends
// when the test says so.
#include "unit/card/program.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/device.h"

enum { BYTES = 4096 };

static spyre_context *the_context;
static device *the_device;

static int open_context(void **state)
{
    (void)state;
    setenv("SPYRE_MEMORY_LIMIT_GB", "1", 1);
    setenv("SPYRE_CACHE_LIMIT_GB", "0.0625", 1);
    assert_ok(spyre_context_create(1, &the_context));
    assert_ok(device_of(the_context, 0, 0, &the_device));
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    spyre_context_destroy(the_context);
    return 0;
}

typedef struct {
    task base;
    sem_t opened;
    atomic_bool began, ended;
} gate;

static spyre_status wait_for_gate(device *d, task *t)
{
    (void)d;
    gate *self = (gate *)(void *)t;
    atomic_store(&self->began, true);
    while (sem_wait(&self->opened) != 0) continue;
    atomic_store(&self->ended, true);
    return NULL;
}

static void close_gate(gate *g, uint32_t stream_id)
{
    *g = (gate){.base.run = wait_for_gate};
    assert_int_equal(sem_init(&g->opened, 0, 0), 0);
    assert_ok(device_submit(the_device, stream_id, &g->base, false));
}

static void open_gate(gate *g)
{
    assert_int_equal(sem_post(&g->opened), 0);
    assert_ok(spyre_card_synchronize(the_context, 0));
    sem_destroy(&g->opened);
}

static uint64_t allocate(uint32_t stream_id, int64_t bytes)
{
    uint64_t address;
    assert_ok(spyre_memory_allocate(the_context, 0, stream_id, bytes, &address));
    return address;
}

static void release(uint64_t address)
{
    spyre_memory_free(the_context, 0, address);
}

static spyre_status clear(uint32_t stream_id, uint64_t address)
{
    return spyre_copy_raw(the_context, 0, stream_id, address, 0, BYTES);
}

typedef struct {
    gate *g;
    atomic_bool returned;
} opener;

// Opens the gate once somebody sleeps (or when nobody did); the worker stands in the gate then.
static void *open_for_sleeper(void *argument)
{
    opener *o = argument;
    bool sleeps = false;
    while (!sleeps && !atomic_load(&o->returned)) {
        pthread_mutex_lock(&the_device->lock);
        sleeps = atomic_load(&o->g->began) && the_device->sleepers > 0;
        pthread_mutex_unlock(&the_device->lock);
        sched_yield();
    }
    sem_post(&o->g->opened);
    return NULL;
}

static void memory__its_stream_takes_a_freed_block_at_once(void **state)
{
    (void)state;
    gate g;
    close_gate(&g, 3);
    uint64_t x = allocate(3, BYTES);
    assert_ok(clear(3, x));
    release(x);
    uint64_t other = allocate(4, BYTES), same = allocate(3, BYTES - 100);
    assert_int_not_equal(other, x);
    assert_int_equal(same, x);
    assert_int_not_equal(allocate(3, BYTES), x);
    open_gate(&g);
    release(same);
    release(other);
    spyre_memory_statistics now;
    spyre_memory_read_statistics(the_context, 0, &now);
    assert_int_equal(now.allocated_bytes, BYTES);
}

static void memory__blocks_of_several_streams_wait_for_all(void **state)
{
    (void)state;
    gate first, second;
    close_gate(&first, 3);
    uint64_t x = allocate(3, BYTES);
    assert_ok(clear(3, x));
    assert_ok(clear(4, x));             // runs at once
    release(x);
    assert_int_not_equal(allocate(3, BYTES), x);
    assert_int_not_equal(allocate(4, BYTES), x);
    open_gate(&first);
    // Only the stream of the last use counts when the others are done.
    uint64_t y = allocate(3, BYTES);
    assert_ok(clear(3, y));
    close_gate(&second, 4);
    assert_ok(clear(4, y));
    release(y);
    assert_int_equal(allocate(4, BYTES), y);
    open_gate(&second);
}

static void memory__a_freed_block_is_nobodys(void **state)
{
    (void)state;
    gate g;
    close_gate(&g, 3);
    uint64_t x = allocate(3, BYTES);
    assert_ok(clear(3, x));
    spyre_memory_statistics before, after;
    release(x);
    spyre_memory_read_statistics(the_context, 0, &before);
    assert_error(clear(3, x), SPYRE_INVALID_ARGUMENT, "is not allocated on card 0");
    release(x);                         // a warning
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.total_frees, before.total_frees);
    assert_int_equal(after.allocated_bytes, before.allocated_bytes);
    open_gate(&g);
}

static void memory__statistics_of_the_cache(void **state)
{
    (void)state;
    const int64_t page = ALLOCATOR_PAGE_BYTES;
    spyre_memory_statistics before, now;
    spyre_memory_empty_cache(the_context, 0);
    spyre_memory_reset_peak(the_context, 0);
    spyre_memory_reset_totals(the_context, 0);
    spyre_memory_read_statistics(the_context, 0, &before);
    uint64_t x = allocate(0, 8 * page);
    assert_ok(clear(0, x));
    ((uint8_t *)card_memory(the_device->machine, x, 8))[7] = 9;
    release(x);
    spyre_memory_read_statistics(the_context, 0, &now);
    assert_int_equal(now.peak_bytes, before.allocated_bytes + 8 * page);
    assert_int_equal(now.allocated_bytes, before.allocated_bytes);
    assert_in_range(now.reserved_bytes - before.reserved_bytes, 7 * page, 8 * page);
    assert_int_equal(now.total_allocated_bytes, 8 * page);
    assert_int_equal(now.total_freed_bytes, 8 * page);
    assert_int_equal(now.retries + now.failures, 0);
    // The same pages, as they were left.
    assert_int_equal(allocate(0, 8 * page), x);
    assert_int_equal(((uint8_t *)card_memory(the_device->machine, x, 8))[7], 9);
    release(x);
    spyre_memory_empty_cache(the_context, 0);
    spyre_memory_read_statistics(the_context, 0, &now);
    assert_int_equal(now.reserved_bytes, before.reserved_bytes);
    assert_true(now.peak_reserved_bytes >= before.reserved_bytes + 7 * page);
    assert_true(now.total_released_bytes >= 7 * page);
}

static void memory__the_cache_is_bounded(void **state)
{
    (void)state;
    const int64_t page = ALLOCATOR_PAGE_BYTES;
    spyre_memory_statistics now;
    assert_int_equal(the_device->cache_limit_bytes, 64 << 20);
    uint64_t x[4];
    for (int n = 0; n < 4; n++) x[n] = allocate(0, 20 * page);
    for (int n = 0; n < 4; n++) release(x[n]);
    spyre_memory_read_statistics(the_context, 0, &now);
    assert_true(now.reserved_bytes - (int64_t)the_device->memory.used_bytes <= 64 << 20);
}

static void memory__out_of_memory_waits_and_is_counted(void **state)
{
    (void)state;
    gate g;
    spyre_memory_statistics before, now;
    spyre_memory_read_statistics(the_context, 0, &before);
    uint64_t x = allocate(3, 900 << 20), y;
    assert_error(spyre_memory_allocate(the_context, 0, 0, 900 << 20, &y), SPYRE_OUT_OF_MEMORY,
                 "943718400 bytes asked, ");
    close_gate(&g, 3);
    assert_ok(clear(3, x));
    release(x);
    opener o = {.g = &g};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_for_sleeper, &o), 0);
    y = allocate(0, 900 << 20);
    assert_true(atomic_load(&g.ended));
    atomic_store(&o.returned, true);
    pthread_join(thread, NULL);
    open_gate(&g);
    release(y);
    spyre_memory_read_statistics(the_context, 0, &now);
    assert_int_equal(now.failures - before.failures, 1);
    assert_int_equal(now.retries - before.retries, 1);
}

static void memory__another_stream_waits_for_the_former_life(void **state)
{
    (void)state;
    gate g;
    close_gate(&g, 3);
    uint64_t x = allocate(3, BYTES);
    assert_ok(clear(3, x));
    release(x);
    assert_int_equal(allocate(3, BYTES), x);
    opener o = {.g = &g};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_for_sleeper, &o), 0);
    assert_ok(clear(5, x));
    bool ended = atomic_load(&g.ended);
    atomic_store(&o.returned, true);
    pthread_join(thread, NULL);
    assert_true(ended);
    open_gate(&g);
    release(x);
}

static void memory__limits_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "-1", "many", "1e3", "1.2.3", ".", "2000", "nan", " 1"};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        spyre_context *other;
        setenv("SPYRE_MEMORY_LIMIT_GB", bad[n], 1);
        assert_error(spyre_context_create(1, &other), SPYRE_INVALID_ARGUMENT,
                     "expected a number of GiB, above 0");
        setenv("SPYRE_MEMORY_LIMIT_GB", "1", 1);
        if (n == 0) continue;           // no cache at all is a choice
        setenv("SPYRE_CACHE_LIMIT_GB", bad[n], 1);
        assert_error(spyre_context_create(1, &other), SPYRE_INVALID_ARGUMENT,
                     "SPYRE_CACHE_LIMIT_GB=");
        setenv("SPYRE_CACHE_LIMIT_GB", "0.0625", 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory__its_stream_takes_a_freed_block_at_once),
        cmocka_unit_test(memory__blocks_of_several_streams_wait_for_all),
        cmocka_unit_test(memory__a_freed_block_is_nobodys),
        cmocka_unit_test(memory__statistics_of_the_cache),
        cmocka_unit_test(memory__the_cache_is_bounded),
        cmocka_unit_test(memory__out_of_memory_waits_and_is_counted),
        cmocka_unit_test(memory__limits_are_checked),
        cmocka_unit_test(memory__another_stream_waits_for_the_former_life),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
