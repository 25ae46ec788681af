// SPDX-License-Identifier: Apache-2.0
//
// Streams and events through the public interface: order, frees behind work, records, virtual time.
#include "device_case.h"

#include <math.h>

#include "spyre/profile.h"

// A long launch keeps a stream busy while memory is freed and jobs are destroyed behind it.
static void stream__frees_wait_for_work_under_way(void **state)
{
    (void)state;
    float values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (float)n;
    spyre_memory_statistics before, after;
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_memory_read_statistics(the_context, 0, &before);
    for (int round = 0; round < 5; round++) {
        adder *a = make_adder(2000, 0);
        uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
        uint32_t side = spyre_stream_from_pool(the_context, 0, round % 2);
        put(0, side, x, values);
        assert_ok(launch(a, 0, side, x, y));
        assert_ok(launch(a, 0, side, y, y));
        spyre_memory_free(the_context, 0, x);
        free_adder(a);
        // Would take x's place if the free were not ordered behind the launch.
        uint64_t z = allocate(0, COUNT * 4);
        put(0, 0, z, (float[COUNT]){0});
        assert_ok(get(0, side, y, back));
        for (int n = 0; n < COUNT; n++) assert_true(back[n] == values[n] + 2.0f + 4000.0f);
        spyre_memory_free(the_context, 0, y);
        spyre_memory_free(the_context, 0, z);
    }
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_memory_read_statistics(the_context, 0, &after);
    assert_int_equal(after.allocated_bytes, before.allocated_bytes);
}

static void stream__streams_keep_order(void **state)
{
    (void)state;
    adder *slow = make_adder(300, 0), *quick = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    for (uint32_t stream_id = 0; stream_id < 65; stream_id += 32) {
        put(0, stream_id, x, (float[COUNT]){0});
        for (int n = 0; n < 10; n++) assert_ok(launch(n % 3 ? quick : slow, 0, stream_id, x, x));
        assert_ok(get(0, stream_id, x, values));
        // `slow` repeats: each repetition reads x again, so it adds 2 * 300.
        assert_true(values[100] == 4 * 600.0f + 6 * 2.0f);
        assert_true(spyre_stream_query(the_context, 0, stream_id));
    }
    spyre_memory_free(the_context, 0, x);
    free_adder(slow);
    free_adder(quick);
}

static void stream__events_order_streams(void **state)
{
    (void)state;
    adder *slow = make_adder(1000, 0), *quick = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    put(0, 20, x, values);
    spyre_event *begin = NULL, *end = NULL;
    assert_ok(spyre_event_record(the_context, 0, 20, &begin));
    assert_ok(launch(slow, 0, 20, x, x));
    assert_ok(spyre_event_record(the_context, 0, 20, &end));
    assert_ok(spyre_event_wait(the_context, 0, 50, end));
    assert_ok(launch(quick, 0, 50, x, y));
    assert_ok(get(0, 50, y, values));
    assert_true(values[5] == 2002.0f);
    assert_true(spyre_event_query(end));
    assert_ok(spyre_event_synchronize(end));
    assert_true(spyre_event_elapsed_ms(begin, end) > 0);
    spyre_event_destroy(begin);
    spyre_event_destroy(end);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    free_adder(slow);
    free_adder(quick);
}

// The records of what ran, those of `left_out` apart.
static uint32_t take_from_card(spyre_activity *out, uint32_t capacity, spyre_activity_kind left_out)
{
    spyre_activity record;
    uint32_t count = 0;
    while (spyre_profile_take(the_context, &record, 1) == 1) {
        if (record.submission || record.kind == left_out) continue;
        assert_true(count < capacity);
        out[count++] = record;
    }
    return count;
}

static void stream__activity_is_recorded_when_enabled(void **state)
{
    (void)state;
    adder *a = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    spyre_activity records[8];
    put(0, 0, x, values);
    assert_int_equal(spyre_profile_take(the_context, records, 8), 0);
    spyre_profile_enable(the_context, true);
    put(0, 0, x, values);
    assert_ok(launch(a, 0, 2, x, x));
    assert_ok(spyre_stream_synchronize(the_context, 0, 2));
    assert_ok(get(0, 0, x, values));
    spyre_profile_enable(the_context, false);
    assert_int_equal(take_from_card(records, 8, SPYRE_ACTIVITY_KERNEL), 3);
    assert_int_equal(records[0].kind, SPYRE_ACTIVITY_COPY_TO_CARD);
    assert_int_equal(records[1].kind, SPYRE_ACTIVITY_LAUNCH);
    assert_string_equal(records[1].name, "adder");
    assert_int_equal(records[2].kind, SPYRE_ACTIVITY_COPY_TO_HOST);
    assert_int_equal(records[1].stream, 2);
    assert_int_equal(records[0].bytes, COUNT * 4);
    for (int n = 0; n < 3; n++) {
        assert_true(records[n].host_end_us >= records[n].host_begin_us);
        assert_true(records[n].card_end_us > records[n].card_begin_us);
        assert_int_equal(records[n].correlation, records[0].correlation + (uint64_t)n);
    }
    spyre_memory_free(the_context, 0, x);
    free_adder(a);
}

// On the virtual clock launches exclude each other whatever their streams, a transfer runs beside
// them, and what the host submits after it has waited comes later.
static void stream__the_virtual_clock_schedules(void **state)
{
    (void)state;
    adder *slow = make_adder(1000, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4), z = allocate(0, COUNT * 4);
    float values[COUNT] = {0};
    spyre_activity r[8];
    assert_ok(spyre_card_synchronize(the_context, 0));
    spyre_profile_enable(the_context, true);
    assert_ok(launch(slow, 0, 3, x, y));
    assert_ok(launch(slow, 0, 4, x, z));
    assert_ok(spyre_stream_synchronize(the_context, 0, 4));
    assert_ok(spyre_stream_synchronize(the_context, 0, 3));
    put(0, 5, x, values);
    assert_ok(launch(slow, 0, 3, x, y));
    put(0, 6, z, values);
    assert_ok(spyre_stream_synchronize(the_context, 0, 3));
    spyre_profile_enable(the_context, false);
    assert_int_equal(take_from_card(r, 8, SPYRE_ACTIVITY_KERNEL), 5);
    // Records come in the order of ends on the host; the last two may change places.
    uint32_t third = r[3].kind == SPYRE_ACTIVITY_LAUNCH ? 3 : 4, copy = 7 - third;
    double launch_us = job_counters(slow->j, NULL)->us;
    assert_true(launch_us > 500);
    assert_true(fabs(r[0].card_end_us - r[0].card_begin_us - launch_us) < 1e-6 * launch_us);
    assert_true(r[1].card_begin_us == r[0].card_end_us);
    assert_true(r[2].card_begin_us == r[1].card_end_us);
    assert_true(r[third].card_begin_us == r[2].card_end_us);
    assert_true(r[copy].card_begin_us == r[2].card_end_us);
    assert_true(r[copy].card_end_us < r[third].card_end_us);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
    spyre_memory_free(the_context, 0, z);
    free_adder(slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__frees_wait_for_work_under_way),
        cmocka_unit_test(stream__streams_keep_order),
        cmocka_unit_test(stream__events_order_streams),
        cmocka_unit_test(stream__activity_is_recorded_when_enabled),
        cmocka_unit_test(stream__the_virtual_clock_schedules),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
