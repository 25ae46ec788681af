// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "base/map.h"

static void map__empty_has_nothing(void **state)
{
    (void)state;
    map_bytes names = {0};
    map_u64 numbers = {0};
    uint32_t value = 7;
    assert_false(map_bytes_get(&names, "a", 1, &value));
    assert_false(map_string_get(&names, "", &value));
    assert_false(map_u64_get(&numbers, 0, &value));
    assert_int_equal(value, 7);
}

static void map__put_replaces(void **state)
{
    (void)state;
    arena *memory = arena_create();
    map_bytes names = {0};
    uint32_t value;
    assert_ok(map_string_put(memory, &names, "add", 1));
    assert_ok(map_string_put(memory, &names, "add", 2));
    assert_true(map_string_get(&names, "add", &value));
    assert_int_equal(value, 2);
    assert_int_equal(names.count, 1);
    assert_false(map_string_get(&names, "ad", &value));
    assert_false(map_string_get(&names, "addd", &value));
    arena_destroy(memory);
}

static void map__intern_keeps_the_first(void **state)
{
    (void)state;
    arena *memory = arena_create();
    map_bytes names = {0};
    uint32_t value;
    assert_ok(map_string_intern(memory, &names, "x", 10, &value));
    assert_int_equal(value, 10);
    assert_ok(map_string_intern(memory, &names, "x", 11, &value));
    assert_int_equal(value, 10);
    arena_destroy(memory);
}

static void map__keys_are_bytes_and_are_copied(void **state)
{
    (void)state;
    arena *memory = arena_create();
    map_bytes names = {0};
    char key[4] = {'a', 0, 'b', 0};
    uint32_t value;
    assert_ok(map_bytes_put(memory, &names, key, 3, 1));
    assert_ok(map_bytes_put(memory, &names, key, 1, 2));
    assert_ok(map_bytes_put(memory, &names, key, 0, 3));
    key[0] = 'z';
    assert_true(map_bytes_get(&names, "a\0b", 3, &value));
    assert_int_equal(value, 1);
    assert_true(map_bytes_get(&names, "a", 1, &value));
    assert_int_equal(value, 2);
    assert_true(map_bytes_get(&names, "", 0, &value));
    assert_int_equal(value, 3);
    arena_destroy(memory);
}

static void map__many_keys_survive_growth(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    arena *memory = arena_create();
    map_bytes names = {0};
    map_u64 numbers = {0};
    char key[16];
    uint32_t value;
    for (uint32_t i = 0; i < COUNT; i++) {
        int length = snprintf(key, sizeof key, "n%u", i);
        assert_ok(map_bytes_put(memory, &names, key, (size_t)length, i));
        assert_ok(map_u64_put(memory, &numbers, (uint64_t)i << 32, i));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(key, sizeof key, "n%u", i);
        assert_true(map_string_get(&names, key, &value));
        assert_int_equal(value, i);
        assert_true(map_u64_get(&numbers, (uint64_t)i << 32, &value));
        assert_int_equal(value, i);
    }
    assert_false(map_u64_get(&numbers, 1, &value));
    assert_int_equal(names.count, COUNT);
    assert_int_equal(numbers.count, COUNT);
    arena_destroy(memory);
}

static void map__every_number_is_a_legal_key(void **state)
{
    (void)state;
    arena *memory = arena_create();
    map_u64 numbers = {0};
    uint32_t value;
    assert_ok(map_u64_put(memory, &numbers, 0, 1));
    assert_ok(map_u64_put(memory, &numbers, UINT64_MAX, 2));
    assert_true(map_u64_get(&numbers, 0, &value));
    assert_int_equal(value, 1);
    assert_true(map_u64_get(&numbers, UINT64_MAX, &value));
    assert_int_equal(value, 2);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map__empty_has_nothing),
        cmocka_unit_test(map__put_replaces),
        cmocka_unit_test(map__intern_keeps_the_first),
        cmocka_unit_test(map__keys_are_bytes_and_are_copied),
        cmocka_unit_test(map__many_keys_survive_growth),
        cmocka_unit_test(map__every_number_is_a_legal_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
