// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "base/build_id.h"
#include "base/bytes.h"

static void bytes__what_is_put_is_taken(void **state)
{
    (void)state;
    text t = {0};
    const uint32_t numbers[3] = {7, 8, 9};
    bytes_put_string(&t, "graph");
    bytes_put(&t, numbers, sizeof numbers);
    bytes_put(&t, NULL, 0);
    bytes_put_number(&t, UINT64_MAX);
    bytes_put_string(&t, "");
    assert_ok(text_status(&t));
    assert_int_equal(t.length % BYTES_ALIGNMENT, 0);
    bytes_reader from = {.bytes = (const uint8_t *)t.bytes, .length = t.length};
    assert_string_equal(bytes_take_string(&from), "graph");
    assert_memory_equal(BYTES_TAKE(&from, uint32_t, 3), numbers, sizeof numbers);
    assert_non_null(BYTES_TAKE(&from, uint32_t, 0));
    assert_true(bytes_take_number(&from) == UINT64_MAX);
    assert_string_equal(bytes_take_string(&from), "");
    assert_false(from.failed);
    assert_int_equal(from.at, t.length);
    text_free(&t);
}

static void bytes__a_short_record_fails_for_good(void **state)
{
    (void)state;
    text t = {0};
    bytes_put_string(&t, "a string of more than sixteen bytes");
    bytes_put_number(&t, 3);
    for (size_t length = 0; length < t.length; length++) {
        bytes_reader from = {.bytes = (const uint8_t *)t.bytes, .length = length};
        (void)bytes_take_string(&from);
        bool had_string = !from.failed;
        uint64_t number = bytes_take_number(&from);
        assert_true(from.failed);
        assert_int_equal(number, 0);
        assert_true(had_string == (length >= t.length - BYTES_ALIGNMENT));
        assert_null(BYTES_TAKE(&from, char, 1));
    }
    text_free(&t);
}

static void bytes__impossible_counts_fail(void **state)
{
    (void)state;
    _Alignas(16) uint8_t room[64];
    memset(room, 0xFF, sizeof room);
    bytes_reader from = {.bytes = room, .length = sizeof room};
    assert_string_equal(bytes_take_string(&from), "");      // a length of 2^64 - 1
    assert_true(from.failed);
    from = (bytes_reader){.bytes = room, .length = sizeof room};
    assert_null(BYTES_TAKE(&from, uint64_t, UINT64_MAX / 4));
    from = (bytes_reader){.bytes = room, .length = sizeof room};
    assert_null(BYTES_TAKE(&from, uint64_t, 9));
    memset(room, 0, sizeof room);
    room[0] = 16;                       // a string of 16 bytes without its terminator
    memset(room + 16, 'x', 32);
    from = (bytes_reader){.bytes = room, .length = sizeof room};
    assert_string_equal(bytes_take_string(&from), "");
    assert_true(from.failed);
}

static void build_id__is_there_and_stays(void **state)
{
    (void)state;
    size_t length = 0, again = 0;
    const uint8_t *id = build_id(&length);
    assert_non_null(id);
    assert_int_equal(length, 20);       // SHA-1
    assert_ptr_equal(build_id(&again), id);
    assert_int_equal(again, length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes__what_is_put_is_taken),
        cmocka_unit_test(bytes__a_short_record_fails_for_good),
        cmocka_unit_test(bytes__impossible_counts_fail),
        cmocka_unit_test(build_id__is_there_and_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
