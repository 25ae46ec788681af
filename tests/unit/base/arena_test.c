// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "unit/check.h"

#include "base/arena.h"

enum { SMALL = 64, LARGE = 1 << 16 };

static void arena__the_last_array_grows_where_it_is(void **state)
{
    (void)state;
    arena *memory = arena_create();
    unsigned char *items = arena_grow(memory, NULL, 0, SMALL);
    memset(items, 7, SMALL);
    assert_ptr_equal(arena_grow(memory, items, SMALL, 2 * SMALL), items);
    assert_int_equal(arena_used_bytes(memory), 2 * SMALL);
    assert_int_equal(items[SMALL - 1], 7);
    assert_int_equal(items[SMALL], 0);
    arena_destroy(memory);
}

static void arena__an_array_behind_which_something_lies_moves(void **state)
{
    (void)state;
    arena *memory = arena_create();
    unsigned char *items = arena_grow(memory, NULL, 0, SMALL), *next = arena_alloc(memory, SMALL);
    memset(items, 7, SMALL);
    unsigned char *moved = arena_grow(memory, items, SMALL, 2 * SMALL);
    assert_ptr_not_equal(moved, items);
    assert_int_equal(moved[SMALL - 1], 7);
    assert_int_equal(moved[SMALL], 0);
    assert_int_equal(next[0], 0);
    arena_destroy(memory);
}

static void arena__a_large_array_leaves_nothing_behind(void **state)
{
    (void)state;
    arena *memory = arena_create();
    unsigned char *small = arena_alloc(memory, SMALL);
    size_t bytes = LARGE;
    unsigned char *items = arena_alloc(memory, bytes);
    items[0] = 7;
    for (; bytes < 16 * (size_t)LARGE; bytes *= 2) {
        items = arena_grow(memory, items, bytes, 2 * bytes);
        assert_int_equal(items[0], 7);
        assert_int_equal(items[bytes], 0);
        items[bytes] = 9;
    }
    assert_int_equal(arena_used_bytes(memory), bytes + SMALL);
    assert_true(arena_host_bytes(memory) < bytes + LARGE);
    small[0] = 1;
    arena_destroy(memory);
}

static void arena__the_last_array_gives_room_back(void **state)
{
    (void)state;
    arena *memory = arena_create();
    unsigned char *items = arena_alloc(memory, 2 * SMALL);
    memset(items, 7, 2 * SMALL);
    arena_trim(memory, items, 2 * SMALL, SMALL);
    assert_int_equal(arena_used_bytes(memory), SMALL);
    unsigned char *next = arena_alloc(memory, SMALL);
    assert_ptr_equal(next, items + SMALL);
    assert_int_equal(next[0], 0);
    arena_trim(memory, items, SMALL, 1);
    assert_int_equal(arena_used_bytes(memory), 2 * SMALL);
    arena_destroy(memory);
}

static void arena__is_empty_and_zero_once_cleared(void **state)
{
    (void)state;
    arena *memory = arena_create();
    arena_clear(memory);
    for (size_t round = 0; round < 3; round++) {
        for (size_t n = 0; n < 100; n++) {
            unsigned char *bytes = arena_alloc(memory, (n + 1) * SMALL);
            assert_int_equal(bytes[0] + bytes[(n + 1) * SMALL - 1], 0);
            memset(bytes, 7, (n + 1) * SMALL);
        }
        assert_int_equal(arena_used_bytes(memory), 5050 * SMALL);
        arena_clear(memory);
        assert_int_equal(arena_used_bytes(memory), 0);
    }
    arena_destroy(memory);
}

static void arena__lives_as_long_as_its_last_owner(void **state)
{
    (void)state;
    arena *memory = arena_create();
    char *name = arena_strdup(memory, "sdsc_0");
    arena_keep(memory);
    arena_destroy(memory);
    assert_string_equal(name, "sdsc_0");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena__the_last_array_grows_where_it_is),
        cmocka_unit_test(arena__an_array_behind_which_something_lies_moves),
        cmocka_unit_test(arena__a_large_array_leaves_nothing_behind),
        cmocka_unit_test(arena__the_last_array_gives_room_back),
        cmocka_unit_test(arena__is_empty_and_zero_once_cleared),
        cmocka_unit_test(arena__lives_as_long_as_its_last_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
