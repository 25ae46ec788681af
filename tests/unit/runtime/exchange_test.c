// SPDX-License-Identifier: Apache-2.0
//
// Exchanges between ranks on the virtual clock.
#include "device_case.h"

#include <math.h>

#include "runtime/exchange.h"

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

static void exchange__time_is_messages_and_bytes_of_a_link(void **state)
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

static void exchange__takes_its_time_in_its_stream(void **state)
{
    (void)state;
    spyre_event *begin = NULL, *end = NULL;
    assert_ok(spyre_event_record(the_context, 0, 3, &begin));
    assert_ok(spyre_exchange(the_context, 0, 3, SPYRE_COMM_SEND, 2, 63015000));
    assert_ok(spyre_event_record(the_context, 0, 3, &end));
    assert_true(fabs(spyre_event_elapsed_ms(begin, end) - 1.002) < 1e-9);
    spyre_event_destroy(begin);
    spyre_event_destroy(end);
    assert_error(spyre_exchange(the_context, 5, 0, SPYRE_COMM_SEND, 2, 1), SPYRE_INVALID_ARGUMENT,
                 "5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchange__time_is_messages_and_bytes_of_a_link),
        cmocka_unit_test(exchange__takes_its_time_in_its_stream),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
