// SPDX-License-Identifier: Apache-2.0
//
// Exchanges between ranks on the virtual clock.
#include "device_case.h"

#include <math.h>

#include "runtime/collective_time.h"

// As rows of cost.def, written out: a change of one is meant to show here.
#define BANDWIDTH 63015.0
#define LATENCY   2.0

static void assert_us(spyre_comm_kind kind, uint32_t ranks, double bytes, double expected)
{
    double us = exchange_us(kind, ranks, bytes);
    if (fabs(us - expected) > 1e-9 * expected)
        print_error("%s of %u ranks: %g us\n", spyre_comm_kind_name(kind), ranks, us);
    assert_true(fabs(us - expected) <= 1e-9 * expected);
}

static void collective_time__time_is_messages_and_bytes_of_a_link(void **state)
{
    (void)state;
    double bytes = 1000 * BANDWIDTH;
    assert_us(SPYRE_COMM_ALL_REDUCE, 4, bytes, 6 * LATENCY + 1500);
    assert_us(SPYRE_COMM_REDUCE_SCATTER, 4, bytes, 3 * LATENCY + 3000);
    assert_us(SPYRE_COMM_ALL_GATHER, 8, bytes, 7 * LATENCY + 7000);
    assert_us(SPYRE_COMM_BROADCAST, 8, bytes, 3 * LATENCY + 1000);
    assert_us(SPYRE_COMM_SEND, 8, bytes, LATENCY + 1000);
    assert_us(SPYRE_COMM_BARRIER, 5, 0, 3 * LATENCY);
    assert_us(SPYRE_COMM_ALL_REDUCE, 1, bytes, 0);
}

static void collective_time__takes_its_time_in_its_stream(void **state)
{
    (void)state;
    spyre_event *begin = NULL, *end = NULL;
    assert_ok(spyre_event_record(the_context, 0, 3, &begin));
    const spyre_exchange_info send = {SPYRE_COMM_SEND, 2, true, 63015000, -1};
    assert_ok(spyre_exchange(the_context, 0, 3, &send));
    assert_ok(spyre_event_record(the_context, 0, 3, &end));
    assert_true(fabs(spyre_event_elapsed_ms(begin, end) - 1.002) < 1e-9);
    spyre_event_destroy(begin);
    spyre_event_destroy(end);
    assert_error(spyre_exchange(the_context, 5, 0, &send), SPYRE_INVALID_ARGUMENT, "5");
}

static void collective_time__ends_at_the_instant_of_the_last_rank(void **state)
{
    (void)state;
    const spyre_exchange_info last = {SPYRE_COMM_ALL_GATHER, 2, false, 63015000, 1e6};
    assert_ok(spyre_exchange(the_context, 0, 4, &last));
    assert_true(fabs(spyre_stream_clock_us(the_context, 0, 4) - (1e6 + LATENCY + 1000)) < 1e-6);
    const spyre_exchange_info earlier = {SPYRE_COMM_ALL_GATHER, 2, false, 63015000, 0};
    assert_ok(spyre_exchange(the_context, 0, 4, &earlier));     // the clock does not go back
    assert_true(fabs(spyre_stream_clock_us(the_context, 0, 4) - (1e6 + LATENCY + 1000)) < 1e-6);
}

static void assert_traffic(spyre_comm_kind kind, bool root, double sent, double received)
{
    exchange_traffic found = exchange_traffic_of(&(spyre_exchange_info){kind, 4, root, 1000, 0});
    assert_true(found.sent == sent && found.received == received);
}

static void collective_time__counts_bytes_between_cards(void **state)
{
    (void)state;
    assert_traffic(SPYRE_COMM_ALL_REDUCE, false, 1500, 1500);
    assert_traffic(SPYRE_COMM_ALL_GATHER, true, 3000, 3000);
    assert_traffic(SPYRE_COMM_BROADCAST, true, 3000, 0);
    assert_traffic(SPYRE_COMM_BROADCAST, false, 0, 1000);
    assert_traffic(SPYRE_COMM_GATHER, true, 0, 3000);
    assert_traffic(SPYRE_COMM_REDUCE, true, 750, 1500);
    assert_traffic(SPYRE_COMM_REDUCE, false, 1000, 750);
    assert_traffic(SPYRE_COMM_SEND, true, 1000, 0);
    assert_traffic(SPYRE_COMM_BARRIER, true, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collective_time__time_is_messages_and_bytes_of_a_link),
        cmocka_unit_test(collective_time__takes_its_time_in_its_stream),
        cmocka_unit_test(collective_time__ends_at_the_instant_of_the_last_rank),
        cmocka_unit_test(collective_time__counts_bytes_between_cards),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
