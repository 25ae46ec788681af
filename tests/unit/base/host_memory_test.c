// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "spyre/host_memory.h"

static void host_memory__blocks_are_pages_of_their_own(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {0, 1, page, page + 1, 5 * page};
    uint8_t *block[5];
    for (int n = 0; n < 5; n++) {
        block[n] = spyre_host_allocate(sizes[n]);
        assert_non_null(block[n]);
        assert_int_equal((uintptr_t)block[n] % page, 0);
        memset(block[n], n, sizes[n]);
    }
    spyre_host_statistics s = spyre_host_read_statistics();
    assert_int_equal(s.blocks, 5);
    assert_int_equal(s.bytes, 10 * page);
    for (int n = 0; n < 5; n++) {
        for (size_t b = 0; b < sizes[n]; b++) assert_int_equal(block[n][b], n);
        assert_int_equal(spyre_host_is_pinned(block[n] + (sizes[n] ? sizes[n] - 1 : 0)),
                         s.locked_bytes == s.bytes);
        spyre_host_free(block[n]);
        assert_false(spyre_host_is_pinned(block[n]));
    }
    assert_false(spyre_host_is_pinned(NULL));
    assert_false(spyre_host_is_pinned(&s));
    spyre_host_free(NULL);
    spyre_host_empty_cache();
    s = spyre_host_read_statistics();
    assert_int_equal(s.blocks + s.bytes + s.kept_blocks + s.kept_bytes, 0);
}

static void host_memory__freed_blocks_serve_again(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = spyre_host_read_statistics().reused;
    void *first = spyre_host_allocate(9 * page);
    spyre_host_free(first);
    void *small = spyre_host_allocate(page);        // too small for nine pages
    assert_ptr_not_equal(small, first);
    assert_ptr_equal(spyre_host_allocate(7 * page), first);
    assert_int_equal(spyre_host_read_statistics().reused, before + 1);
    spyre_host_free(first);
    spyre_host_free(first);                         // not in use
    spyre_host_free(small);
    assert_int_equal(spyre_host_read_statistics().kept_blocks, 2);
    assert_int_equal(spyre_host_read_statistics().kept_bytes, 10 * page);
    spyre_host_empty_cache();
}

static void host_memory__without_locking_it_serves(void **state)
{
    (void)state;
    struct rlimit before, none = {0};
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    uint8_t *block = spyre_host_allocate(100);
    assert_non_null(block);
    block[99] = 1;
    if (geteuid() != 0) assert_false(spyre_host_is_pinned(block));
    spyre_host_free(block);
    assert_null(spyre_host_allocate(SIZE_MAX));
    assert_null(spyre_host_allocate(SIZE_MAX / 2));
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    spyre_host_empty_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory__blocks_are_pages_of_their_own),
        cmocka_unit_test(host_memory__freed_blocks_serve_again),
        cmocka_unit_test(host_memory__without_locking_it_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
