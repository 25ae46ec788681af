// SPDX-License-Identifier: Apache-2.0
//
// Work that is dropped: by spyre_card_cancel() and by waits that the user interrupts. The card is
// usable afterwards, and results that were never written are not taken for values.
#include "device_case.h"

#include <stdatomic.h>
#include <unistd.h>

#include "runtime/device.h"

enum { LAUNCHES = 40 };

// Takes minutes under any sanitizer; a test that waits for all of it runs out of its time.
static const uint32_t LONG = 4000000;

static const float zeros[COUNT];

static bool interrupts(void)
{
    return true;
}

static atomic_uint asked;

static bool third_time(void)
{
    return atomic_fetch_add(&asked, 1) == 2;
}

static void enqueue(adder *a, uint32_t stream, uint64_t from, uint64_t to)
{
    for (int n = 0; n < LAUNCHES; n++) assert_ok(launch(a, 0, stream, from, to));
}

// A launch on every stream gives what it should.
static void check_usable(uint64_t x)
{
    adder *quick = make_adder(1, 0);
    float values[COUNT];
    for (uint32_t stream = 0; stream < 65; stream += 16) {
        put(0, stream, x, zeros);
        assert_ok(launch(quick, 0, stream, x, x));
        assert_ok(get(0, stream, x, values));
        for (int n = 0; n < COUNT; n++) assert_true(values[n] == 2.0f);
    }
    assert_ok(spyre_card_synchronize(the_context, 0));
    free_adder(quick);
}

static void cancel__drops_what_is_queued(void **state)
{
    (void)state;
    adder *a = make_adder(LONG, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    put(0, 0, x, zeros);
    for (uint32_t stream = 0; stream < 65; stream += 32) enqueue(a, stream, x, y);
    assert_false(spyre_stream_query(the_context, 0, 0));
    spyre_card_cancel(the_context, 0);
    for (uint32_t stream = 0; stream < 65; stream += 32) {
        assert_true(spyre_stream_query(the_context, 0, stream));
        assert_false(spyre_stream_failed(the_context, 0, stream));
    }
    check_usable(x);
    free_adder(a);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
}

static void cancel__other_cards_go_on(void **state)
{
    (void)state;
    adder *a = make_adder(300, 0);
    uint64_t x = allocate(1, COUNT * 4);
    float values[COUNT];
    put(1, 0, x, zeros);
    assert_ok(launch(a, 1, 0, x, x));
    spyre_card_cancel(the_context, 0);
    assert_ok(get(1, 0, x, values));
    assert_true(values[7] == 600.0f);
    free_adder(a);
    spyre_memory_free(the_context, 1, x);
}

// Inputs of dropped launches keep their values; results are refused until they are written whole.
static void cancel__lost_results_are_not_read(void **state)
{
    (void)state;
    adder *a = make_adder(LONG, 0), *quick = make_adder(1, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4), z = allocate(0, COUNT * 4);
    float values[COUNT];
    put(0, 0, x, zeros);
    put(0, 0, z, zeros);
    assert_ok(launch(a, 0, 0, x, y));
    assert_ok(launch(quick, 0, 0, y, z));
    spyre_card_cancel(the_context, 0);
    assert_ok(get(0, 0, x, values));
    assert_true(values[9] == 0.0f);
    assert_error(get(0, 0, y, values), SPYRE_CANCELLED, "was cancelled");
    assert_error(launch(quick, 0, 0, z, y), SPYRE_CANCELLED, "input 0");
    assert_error(spyre_copy_raw(the_context, 0, 0, x, z, COUNT * 4), SPYRE_CANCELLED, "raw copy");
    put(0, 0, y, zeros);
    assert_ok(get(0, 0, y, values));
    assert_ok(launch(quick, 0, 0, y, z));
    assert_ok(get(0, 0, z, values));
    assert_true(values[9] == 2.0f);
    // Other tensors in the same memory are not refused.
    assert_ok(launch(a, 0, 0, x, y));
    spyre_card_cancel(the_context, 0);
    spyre_memory_free(the_context, 0, y);
    uint64_t again = allocate(0, COUNT * 4);
    assert_int_equal(again, y);
    assert_ok(get(0, 0, again, values));
    free_adder(a);
    free_adder(quick);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, again);
    spyre_memory_free(the_context, 0, z);
}

static void cancel__events_complete(void **state)
{
    (void)state;
    adder *a = make_adder(LONG, 0);
    uint64_t x = allocate(0, COUNT * 4), y = allocate(0, COUNT * 4);
    spyre_event *event = NULL;
    put(0, 0, x, zeros);
    enqueue(a, 3, x, y);
    assert_ok(spyre_event_record(the_context, 0, 3, &event));
    assert_ok(spyre_event_wait(the_context, 0, 4, event));
    enqueue(a, 4, x, y);
    spyre_card_cancel(the_context, 0);
    assert_true(spyre_event_query(event));
    assert_ok(spyre_event_synchronize(event));
    check_usable(x);
    spyre_event_destroy(event);
    free_adder(a);
    spyre_memory_free(the_context, 0, x);
    spyre_memory_free(the_context, 0, y);
}

typedef spyre_status wait_fn(uint64_t address);

static spyre_status wait_stream(uint64_t address)
{
    (void)address;
    return spyre_stream_synchronize(the_context, 0, 5);
}

static spyre_status wait_card(uint64_t address)
{
    (void)address;
    return spyre_card_synchronize(the_context, 0);
}

static spyre_status wait_copy(uint64_t address)
{
    float values[COUNT];
    return get(0, 5, address, values);
}

// A stream that is full takes no more.
static spyre_status wait_room(uint64_t address)
{
    adder *quick = make_adder(1, 0);
    spyre_status status = NULL;
    for (int n = 0; n < 100000 && !status; n++) status = launch(quick, 0, 5, address, address);
    free_adder(quick);
    return status;
}

static spyre_status wait_memory(uint64_t address)
{
    (void)address;
    uint64_t held = allocate(0, INT64_C(900) << 20), none;
    adder *a = make_adder(LONG, 0);
    assert_ok(job_launch(the_context, 0, 5, a->j, &held, &held, NULL));
    free_adder(a);
    spyre_memory_free(the_context, 0, held);
    return spyre_memory_allocate(the_context, 0, 0, INT64_C(800) << 20, &none);
}

static void cancel__waits_are_interrupted(void **state)
{
    (void)state;
    static wait_fn *const waits[] = {wait_stream, wait_card, wait_copy, wait_room, wait_memory};
    for (size_t n = 0; n < sizeof waits / sizeof *waits; n++) {
        adder *a = make_adder(LONG, 0);
        uint64_t x = allocate(0, COUNT * 4);
        put(0, 5, x, zeros);
        enqueue(a, 5, x, x);
        spyre_set_interrupt(n % 2 ? third_time : interrupts);
        atomic_store(&asked, 0);
        assert_error(waits[n](x), SPYRE_CANCELLED, "interrupted");
        if (n % 2) assert_int_equal(asked, 3);
        spyre_set_interrupt(NULL);
        assert_ok(spyre_card_synchronize(the_context, 0));
        check_usable(x);
        free_adder(a);
        spyre_memory_free(the_context, 0, x);
    }
}

static void cancel__event_waits_are_interrupted(void **state)
{
    (void)state;
    adder *a = make_adder(LONG, 0);
    uint64_t x = allocate(0, COUNT * 4);
    spyre_event *event = NULL;
    put(0, 5, x, zeros);
    enqueue(a, 5, x, x);
    assert_ok(spyre_event_record(the_context, 0, 5, &event));
    spyre_set_interrupt(interrupts);
    assert_error(spyre_event_synchronize(event), SPYRE_CANCELLED, "interrupted");
    spyre_set_interrupt(NULL);
    // An event belongs to no card: its work goes on.
    assert_false(spyre_event_query(event));
    spyre_card_cancel(the_context, 0);
    assert_true(spyre_event_query(event));
    spyre_event_destroy(event);
    free_adder(a);
    spyre_memory_free(the_context, 0, x);
}

// Another thread's wait for what is dropped ends with an error, too.
static void *wait_in_thread(void *argument)
{
    uint64_t address = *(const uint64_t *)argument;
    float values[COUNT];
    return get(0, 5, address, values);
}

static void cancel__waits_of_other_threads_end(void **state)
{
    (void)state;
    adder *a = make_adder(LONG, 0);
    uint64_t x = allocate(0, COUNT * 4);
    put(0, 5, x, zeros);
    enqueue(a, 5, x, x);
    pthread_t thread;
    void *status;
    uint64_t before = the_context->devices[0].sequence;
    assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &x), 0);
    for (bool came = false; !came;) {
        pthread_mutex_lock(&the_context->devices[0].lock);
        came = the_context->devices[0].sequence > before;
        pthread_mutex_unlock(&the_context->devices[0].lock);
        usleep(1000);
    }
    spyre_card_cancel(the_context, 0);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_error(status, SPYRE_CANCELLED, "cancelled");
    check_usable(x);
    free_adder(a);
    spyre_memory_free(the_context, 0, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel__drops_what_is_queued),
        cmocka_unit_test(cancel__other_cards_go_on),
        cmocka_unit_test(cancel__lost_results_are_not_read),
        cmocka_unit_test(cancel__events_complete),
        cmocka_unit_test(cancel__waits_are_interrupted),
        cmocka_unit_test(cancel__event_waits_are_interrupted),
        cmocka_unit_test(cancel__waits_of_other_threads_end),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
