// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "base/odometer.h"

// Every index once, the last dim fastest, each with the place that its strides say.
static void odometer__goes_through_all_indices_in_order(void **state)
{
    (void)state;
    const int64_t extent[] = {2, 1, 3}, up[] = {100, 7, 10}, down[] = {-1, 0, 4};
    int64_t index[3] = {0}, n = 0;
    odometer_place place[] = {{up, 5}, {down, 1}};
    bool more;
    do {
        assert_int_equal(index[0], n / 3);
        assert_int_equal(index[1], 0);
        assert_int_equal(index[2], n % 3);
        assert_int_equal(place[0].at, 5 + n / 3 * 100 + n % 3 * 10);
        assert_int_equal(place[1].at, 1 - n / 3 + n % 3 * 4);
        more = odometer_next(3, extent, index, place, 2);
        n++;
    } while (more);
    assert_int_equal(n, 6);
}

static void odometer__begins_again_behind_the_last_index(void **state)
{
    (void)state;
    const int64_t extent[] = {2, 2}, stride[] = {3, -8};
    int64_t index[2] = {1, 1};
    odometer_place place = {stride, 40 + 3 - 8};
    assert_false(odometer_next(2, extent, index, &place, 1));
    assert_int_equal(index[0], 0);
    assert_int_equal(index[1], 0);
    assert_int_equal(place.at, 40);
    assert_true(odometer_next(2, extent, index, NULL, 0));
    assert_int_equal(index[1], 1);
}

static void odometer__no_dims_have_one_index(void **state)
{
    (void)state;
    odometer_place place = {.at = 3};
    assert_false(odometer_next(0, NULL, NULL, &place, 1));
    assert_int_equal(place.at, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odometer__goes_through_all_indices_in_order),
        cmocka_unit_test(odometer__begins_again_behind_the_last_index),
        cmocka_unit_test(odometer__no_dims_have_one_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
