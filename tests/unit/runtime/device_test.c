// SPDX-License-Identifier: Apache-2.0
//
// Memory, launches and faults through the public interface.
#include "device_case.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static void device__round_trip_and_launch_on_two_cards(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    for (uint32_t card_id = 0; card_id < 2; card_id++) {
        float values[COUNT], back[COUNT];
        for (int n = 0; n < COUNT; n++) values[n] = (float)n + (float)card_id;
        uint64_t x = allocate(card_id, COUNT * 4), y = allocate(card_id, COUNT * 4);
        put(card_id, 0, x, values);
        assert_ok(get(card_id, 0, x, back));
        assert_memory_equal(values, back, sizeof values);
        assert_ok(launch(a, card_id, 0, x, y));
        assert_ok(get(card_id, 0, y, back));
        for (int n = 0; n < COUNT; n++) assert_true(back[n] == values[n] + 2.0f);
        spyre_memory_free(the_context, card_id, x);
        spyre_memory_free(the_context, card_id, y);
    }
    free_adder(a);
}

static void device__statistics_are_flat_over_many_allocations(void **state)
{
    (void)state;
    spyre_memory_statistics before, after;
    spyre_memory_read_statistics(the_context, 0, &before);
    uint64_t addresses[64] = {0}, seed = 11;
    for (int n = 0; n < 10000; n++) {
        uint64_t *slot = &addresses[next_random(&seed) % 64];
        if (*slot) spyre_memory_free(the_context, 0, *slot);
        *slot = allocate(0, next_random(&seed) % 100000);
    }
    for (int n = 0; n < 64; n++)
        if (addresses[n]) spyre_memory_free(the_context, 0, addresses[n]);
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.allocated_bytes, before.allocated_bytes);
    assert_int_equal(after.allocation_count, before.allocation_count);
    assert_int_equal(after.total_allocations, before.total_allocations + 10000);
    assert_true(after.peak_bytes > 64 * 1024);
    assert_true(after.reserved_bytes < 16 << 20);
    assert_int_equal(after.limit_bytes, 1 << 30);
    spyre_memory_reset_peak(the_context, 0);
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.peak_bytes, after.allocated_bytes);
}

static void device__out_of_memory_names_bytes(void **state)
{
    (void)state;
    uint64_t address;
    assert_error(spyre_memory_allocate(the_context, 1, 0, 2LL << 30, &address), SPYRE_OUT_OF_MEMORY,
                 "card 1: card out of memory: 2147483648 bytes asked, ");
    assert_error(spyre_memory_allocate(the_context, 0, 0, -1, &address), SPYRE_INVALID_ARGUMENT,
                 "-1 bytes");
}

static void device__bad_addresses_are_refused(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4), small = allocate(0, 100);
    assert_error(launch(a, 0, 0, 0x7000000, x), SPYRE_INVALID_ARGUMENT,
                 "adder: input 0: address 0x7000000 is not allocated on card 0");
    assert_error(launch(a, 0, 0, x, small), SPYRE_INVALID_ARGUMENT,
                 "16384 bytes needed, its allocation has 128 left");
    float values[COUNT];
    assert_error(get(0, 0, small, values), SPYRE_INVALID_ARGUMENT, "copy to host");
    assert_error(spyre_stream_synchronize(the_context, 0, 65), SPYRE_INVALID_ARGUMENT,
                 "stream 65");
    assert_error(spyre_stream_synchronize(the_context, 2, 0), SPYRE_INVALID_ARGUMENT, "card 2");
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, small);
    free_adder(a);
}

static void device__a_job_has_one_pool(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    job *j = NULL;
    const job_argument arguments[4] = {{.kind = JOB_INPUT},
                                       {.kind = JOB_POOL, .bytes = COUNT * 4},
                                       {.kind = JOB_POOL, .bytes = COUNT * 4},
                                       {.kind = JOB_BUFFER}};
    const job_plan plan = {a->program, 4, arguments, 0, NULL, "two", false};
    assert_error(job_create(&plan, &j), SPYRE_UNSUPPORTED, "job two: 2 pools, at most one");
    assert_null(j);
    free_adder(a);
}

static void device__fault_is_sticky_until_reported(void **state)
{
    (void)state;
    adder *good = make_adder(1, 0), *bad = make_adder(1, 128);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    put(0, 0, x, values);
    uint32_t side = spyre_stream_from_pool(the_context, 0, false);
    assert_ok(launch(bad, 0, 0, x, y));
    assert_ok(launch(bad, 0, side, x, y));
    // A synchronisation reports it and clears the default stream; so does a launch that is refused.
    assert_error(spyre_stream_synchronize(the_context, 0, 0), SPYRE_DEVICE_FAULT,
                 "adder: core 0, kernel 0_test (model.py:7)");
    assert_ok(launch(bad, 0, 0, x, y));
    while (!spyre_stream_query(the_context, 0, 0)) sched_yield();
    assert_error(launch(good, 0, 0, x, y), SPYRE_DEVICE_FAULT, "adder: core 0, kernel 0_test");
    assert_ok(spyre_stream_synchronize(the_context, 0, 0));
    assert_false(spyre_stream_failed(the_context, 0, 0));
    assert_ok(launch(good, 0, 0, x, y));
    assert_ok(get(0, 0, y, values));
    assert_true(values[7] == 2.0f);
    // The other stream stays failed, the card complains once.
    assert_error(spyre_card_synchronize(the_context, 0), SPYRE_DEVICE_FAULT, "adder");
    assert_ok(spyre_card_synchronize(the_context, 0));
    assert_true(spyre_stream_failed(the_context, 0, side));
    assert_true(spyre_stream_failed(the_context, 0, 65));      // there is none
    assert_error(launch(good, 0, side, x, y), SPYRE_DEVICE_FAULT, "adder");
    assert_error(spyre_stream_synchronize(the_context, 0, side), SPYRE_DEVICE_FAULT, "adder");
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    free_adder(good);
    free_adder(bad);
}

static void device__blocking_copy_reports_and_clears(void **state)
{
    (void)state;
    adder *bad = make_adder(100, 128);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    put(0, 0, x, values);
    assert_ok(launch(bad, 0, 0, x, y));
    assert_error(get(0, 0, y, values), SPYRE_DEVICE_FAULT, "argument 3");
    assert_ok(get(0, 0, x, values));
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    free_adder(bad);
}

static void device__a_forked_child_gets_an_error(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        uint64_t address;
        spyre_status status = spyre_memory_allocate(the_context, 0, 0, 128, &address);
        bool right = status && strstr(spyre_status_message(status), "forked child");
        spyre_memory_free(the_context, 0, 128);
        spyre_context_destroy(the_context);
        _exit(right ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void device__a_job_outlives_its_context(void **state)
{
    (void)state;
    spyre_context *other;
    assert_ok(spyre_context_create(1, &other));
    adder *a = make_adder(1, 0);
    uint64_t x;
    assert_ok(spyre_memory_allocate(other, 0, 0, COUNT * 4, &x));
    assert_ok(job_launch(other, 0, 0, a->j, &x, &x, NULL));
    spyre_context_destroy(other);
    uint64_t y = allocate(0, COUNT * 4);
    assert_ok(launch(a, 0, 0, y, y));
    spyre_memory_free(the_context, 0, y);
    free_adder(a);
    assert_ok(spyre_card_synchronize(the_context, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device__round_trip_and_launch_on_two_cards),
        cmocka_unit_test(device__statistics_are_flat_over_many_allocations),
        cmocka_unit_test(device__out_of_memory_names_bytes),
        cmocka_unit_test(device__bad_addresses_are_refused),
        cmocka_unit_test(device__a_job_has_one_pool),
        cmocka_unit_test(device__fault_is_sticky_until_reported),
        cmocka_unit_test(device__blocking_copy_reports_and_clears),
        cmocka_unit_test(device__a_forked_child_gets_an_error),
        cmocka_unit_test(device__a_job_outlives_its_context),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
