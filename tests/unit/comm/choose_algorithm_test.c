// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "comm/choose_algorithm.h"

static comm_topology make_topology(uint32_t hosts, uint32_t ranks_a_host, bool alternating)
{
    comm_topology t = {.size = hosts * ranks_a_host, .hosts = hosts, .cores = ranks_a_host,
                       .forced = ALGORITHM_COUNT};
    for (uint32_t r = 0; r < t.size; r++)
        t.host_of[r] = (uint8_t)(alternating ? r % hosts : r / ranks_a_host);
    return t;
}

static comm_algorithm choose(const comm_topology *t, uint64_t bytes)
{
    return algorithm_choose(t, SPYRE_COMM_ALL_REDUCE, SPYRE_FORMAT_IEEE_FP32, bytes);
}

static void algorithm__depends_on_size_and_hosts(void **state)
{
    (void)state;
    comm_topology one = make_topology(1, 4, false), several = make_topology(4, 8, false);
    assert_int_equal(choose(&one, 8 << 10), ALGORITHM_DIRECT);
    assert_int_equal(choose(&one, 64 << 20), ALGORITHM_SLICED);
    assert_int_equal(choose(&several, 64 << 20), ALGORITHM_CHAIN);
    comm_topology alternating = make_topology(4, 8, true);     // a chain would cross all the time
    assert_int_equal(choose(&alternating, 64 << 20), ALGORITHM_SLICED);
}

// More to move never takes less; nor do more ranks on as many cores.
static void algorithm__estimates_grow(void **state)
{
    (void)state;
    comm_topology here = make_topology(1, 4, false), apart = make_topology(4, 1, false);
    comm_topology crowded = here;
    crowded.cores = 2;
    for (comm_algorithm a = 0; a < ALGORITHM_COUNT; a++)
        for (uint64_t bytes = 64; bytes < 1 << 28; bytes *= 3) {
            double us = algorithm_us(&here, a, SPYRE_COMM_ALL_REDUCE, SPYRE_FORMAT_SEN169_FP16,
                                     bytes);
            assert_true(us > 0);
            assert_true(us < algorithm_us(&here, a, SPYRE_COMM_ALL_REDUCE,
                                          SPYRE_FORMAT_SEN169_FP16, 3 * bytes));
            assert_true(us < algorithm_us(&apart, a, SPYRE_COMM_ALL_REDUCE,
                                          SPYRE_FORMAT_SEN169_FP16, bytes));
            assert_true(us < algorithm_us(&crowded, a, SPYRE_COMM_ALL_REDUCE,
                                          SPYRE_FORMAT_SEN169_FP16, bytes));
        }
}

static void algorithm__names_force_it(void **state)
{
    (void)state;
    comm_topology t = make_topology(2, 2, false);
    for (comm_algorithm a = 0; a < ALGORITHM_COUNT; a++) {
        assert_int_equal(algorithm_find(algorithm_name(a)), a);
        t.forced = a;
        assert_int_equal(choose(&t, 1 << 20), a);
    }
    assert_int_equal(algorithm_find("fastest"), ALGORITHM_COUNT);
    assert_int_equal(algorithm_find(NULL), ALGORITHM_COUNT);
}

static void algorithm__members_of_hosts(void **state)
{
    (void)state;
    comm_topology t = make_topology(2, 3, true);
    assert_int_equal(topology_count(&t, 1), 3);
    assert_int_equal(topology_member(&t, 1, 0), 1);
    assert_int_equal(topology_member(&t, 1, 2), 5);
    assert_int_equal(topology_member(&t, 0, 4), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(algorithm__depends_on_size_and_hosts),
        cmocka_unit_test(algorithm__estimates_grow),
        cmocka_unit_test(algorithm__names_force_it),
        cmocka_unit_test(algorithm__members_of_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
