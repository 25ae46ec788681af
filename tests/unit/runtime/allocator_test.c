// SPDX-License-Identifier: Apache-2.0
#include "unit/card/program.h"

#include "runtime/allocator.h"

static void allocator__never_gives_address_zero(void **state)
{
    (void)state;
    allocator a;
    assert_ok(allocator_create(&a));
    uint64_t address;
    assert_ok(allocator_take(&a, 0, &address));
    assert_int_equal(address, 128);
    assert_int_equal(allocator_find(&a, 128)->bytes, 128);
    assert_ok(allocator_take(&a, 129, &address));
    assert_int_equal(address, 256);
    assert_int_equal(allocator_find(&a, 400)->bytes, 256);
    assert_null(allocator_find(&a, 512));
    assert_null(allocator_find(&a, 0));
    allocator_destroy(&a);
}

static void allocator__takes_the_best_fit_and_joins_neighbours(void **state)
{
    (void)state;
    allocator a;
    assert_ok(allocator_create(&a));
    static const uint64_t sizes[6] = {1024, 128, 512, 128, 768, 128};
    uint64_t at[6], address;
    for (int n = 0; n < 6; n++) assert_ok(allocator_take(&a, sizes[n], &at[n]));
    assert_true(allocator_give(&a, at[0]));
    assert_true(allocator_give(&a, at[2]));
    assert_true(allocator_give(&a, at[4]));
    assert_ok(allocator_take(&a, 500, &address));
    assert_int_equal(address, at[2]);
    assert_true(allocator_give(&a, address));
    assert_true(allocator_give(&a, at[1]));
    assert_true(allocator_give(&a, at[3]));             // 0..4 are one block now
    assert_ok(allocator_take(&a, 1024 + 128 + 512 + 128 + 768, &address));
    assert_int_equal(address, at[0]);
    assert_true(allocator_give(&a, address));
    assert_true(allocator_give(&a, at[5]));
    assert_int_equal(a.gap_count, ALLOCATOR_SEGMENTS);
    assert_int_equal(a.used_bytes, 0);
    assert_false(allocator_give(&a, at[5]));
    allocator_destroy(&a);
}

static void allocator__segments_do_not_join(void **state)
{
    (void)state;
    allocator a;
    assert_ok(allocator_create(&a));
    uint64_t address[ALLOCATOR_SEGMENTS], extra;
    // Segment 0 lacks its first block, so seven whole segments do not exist.
    for (int n = 0; n < ALLOCATOR_SEGMENTS - 1; n++) {
        assert_ok(allocator_take(&a, CARD_SEGMENT_BYTES, &address[n]));
        assert_int_equal(address[n] % CARD_SEGMENT_BYTES, 0);
    }
    assert_error(allocator_take(&a, CARD_SEGMENT_BYTES, &extra), SPYRE_OUT_OF_MEMORY,
                 "17179869184 bytes asked, 17179869056 bytes free");
    for (int n = 0; n < ALLOCATOR_SEGMENTS - 1; n++) assert_true(allocator_give(&a, address[n]));
    assert_int_equal(a.gap_count, ALLOCATOR_SEGMENTS);
    allocator_destroy(&a);
}

static void allocator__limit_counts_rounded_bytes(void **state)
{
    (void)state;
    allocator a;
    assert_ok(allocator_create(&a));
    allocator_limit(&a, 1000, "the test");
    uint64_t address, second;
    assert_ok(allocator_take(&a, 897 - 128, &address));
    assert_error(allocator_take(&a, 129, &second), SPYRE_OUT_OF_MEMORY,
                 "129 bytes asked, 104 bytes free, largest block 104 bytes, 896 bytes in use");
    assert_error(allocator_take(&a, 129, &second), SPYRE_OUT_OF_MEMORY,
                 "; the limit of 1000 bytes is that of the test");
    allocator_limit(&a, 500, "the test"); // less than is in use
    assert_error(allocator_take(&a, 1, &second), SPYRE_OUT_OF_MEMORY,
                 "1 bytes asked, 0 bytes free");
    allocator_limit(&a, UINT64_MAX, "nobody");
    assert_null(a.limited_by);
    allocator_limit(&a, 1000, "the test");
    assert_true(allocator_give(&a, address));
    assert_ok(allocator_take(&a, 129, &second));
    allocator_destroy(&a);
}

typedef struct {
    uint64_t address, bytes;
    int calls;
} released;

static void note_release(void *context, uint64_t address, uint64_t bytes)
{
    released *r = context;
    r->address = address;
    r->bytes += bytes;
    r->calls++;
}

static void allocator__reserves_and_releases_whole_pages(void **state)
{
    (void)state;
    const uint64_t page = ALLOCATOR_PAGE_BYTES;
    allocator a;
    assert_ok(allocator_create(&a));
    uint64_t first, second, third;
    assert_ok(allocator_take(&a, 3 * page, &first));    // from byte 4096 of page 0 into page 3
    assert_int_equal(a.reserved_bytes, 4 * page);
    assert_ok(allocator_take(&a, page - ALLOCATOR_ALIGN_BYTES, &second)); // the rest of page 3
    assert_int_equal(a.reserved_bytes, 4 * page);
    assert_ok(allocator_take(&a, 2 * page, &third));
    assert_int_equal(a.reserved_bytes, 6 * page);

    released r = {0};
    assert_true(allocator_give(&a, third));
    assert_true(allocator_give(&a, first));
    allocator_trim(&a, 6 * page, note_release, &r);     // more than is idle
    assert_int_equal(r.calls, 0);
    allocator_trim(&a, 4 * page, note_release, &r);     // the one freed longest ago is enough
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.address, third);
    assert_int_equal(r.bytes, 2 * page);
    assert_int_equal(a.reserved_bytes, 4 * page);
    allocator_trim(&a, 0, note_release, &r);            // pages 0 and 3 are shared
    assert_int_equal(r.calls, 2);
    assert_int_equal(r.address, page);
    assert_int_equal(a.reserved_bytes, 2 * page);
    assert_int_equal(a.peak_reserved_bytes, 6 * page);
    assert_int_equal(a.total_reserved_bytes - a.total_released_bytes, a.reserved_bytes);

    uint64_t again;
    assert_ok(allocator_take(&a, 3 * page, &again));
    assert_int_equal(again, first);
    assert_int_equal(a.reserved_bytes, 4 * page);
    allocator_destroy(&a);
}

static void allocator__aligns_large_blocks(void **state)
{
    (void)state;
    enum { LARGE = ALLOCATOR_LARGE_BYTES, ALIGN = ALLOCATOR_ALIGN_BYTES };
    allocator a;
    assert_ok(allocator_create(&a));
    uint64_t address[4], rest;
    assert_ok(allocator_take(&a, LARGE, &address[0]));
    assert_int_equal(address[0], ALIGN);
    assert_ok(allocator_take(&a, LARGE - 128, &address[1]));
    assert_int_equal(address[1], ALIGN + LARGE);
    assert_ok(allocator_take(&a, 128, &address[2]));    // in front of the first one
    assert_int_equal(address[2], 128);
    assert_ok(allocator_take(&a, LARGE + 1, &address[3]));
    assert_int_equal(address[3], ALIGN + 2 * LARGE);
    for (int n = 0; n < 4; n++) assert_true(allocator_give(&a, address[n]));
    // All of segment 0 is there for one that no multiple leaves room for.
    for (int n = 1; n < ALLOCATOR_SEGMENTS; n++)
        assert_ok(allocator_take(&a, CARD_SEGMENT_BYTES, &rest));
    assert_ok(allocator_take(&a, CARD_SEGMENT_BYTES - 128, &rest));
    assert_int_equal(rest, 128);
    allocator_destroy(&a);
}

static void allocator__prefers_what_was_freed_last(void **state)
{
    (void)state;
    allocator a;
    assert_ok(allocator_create(&a));
    uint64_t at[6], address;
    for (int n = 0; n < 6; n++) assert_ok(allocator_take(&a, 256, &at[n]));
    assert_true(allocator_give(&a, at[0]));
    assert_true(allocator_give(&a, at[4]));
    assert_true(allocator_give(&a, at[2]));
    assert_ok(allocator_take(&a, 256, &address));
    assert_int_equal(address, at[2]);
    assert_ok(allocator_take(&a, 256, &address));
    assert_int_equal(address, at[4]);
    allocator_destroy(&a);
}

// Against a map of who owns every block.
static void allocator__random_blocks_never_overlap(void **state)
{
    (void)state;
    enum { BLOCKS = 4096, LIVE = 300 };
    static uint16_t owner[BLOCKS];
    memset(owner, 0, sizeof owner);
    allocator a;
    assert_ok(allocator_create(&a));
    allocator_limit(&a, BLOCKS * 64ULL, "the test");
    uint64_t seed = 3, at[LIVE] = {0}, size[LIVE] = {0};
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t n = next_random(&seed) % LIVE;
        if (at[n]) {
            for (uint64_t b = at[n] / 128; b < (at[n] + size[n]) / 128; b++) {
                assert_int_equal(owner[b], n + 1);
                owner[b] = 0;
            }
            assert_true(allocator_give(&a, at[n]));
            assert_null(allocator_find(&a, at[n]));
            at[n] = 0;
            continue;
        }
        uint64_t bytes = 1 + next_random(&seed) % 1500;
        spyre_status status = allocator_take(&a, bytes, &at[n]);
        if (status) {
            at[n] = 0;
            spyre_status_free(status);
            continue;
        }
        size[n] = (bytes + 127) / 128 * 128;
        assert_true((at[n] + size[n]) / 128 <= BLOCKS);
        for (uint64_t b = at[n] / 128; b < (at[n] + size[n]) / 128; b++) {
            assert_int_equal(owner[b], 0);
            owner[b] = (uint16_t)(n + 1);
        }
        assert_int_equal(allocator_find(&a, at[n] + bytes - 1)->address, at[n]);
        for (uint32_t m = n % 17; m < LIVE; m += 17) // some share a place of `starts`
            if (at[m]) assert_int_equal(allocator_find(&a, at[m])->address, at[m]);
    }
    allocator_destroy(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocator__never_gives_address_zero),
        cmocka_unit_test(allocator__takes_the_best_fit_and_joins_neighbours),
        cmocka_unit_test(allocator__segments_do_not_join),
        cmocka_unit_test(allocator__limit_counts_rounded_bytes),
        cmocka_unit_test(allocator__reserves_and_releases_whole_pages),
        cmocka_unit_test(allocator__aligns_large_blocks),
        cmocka_unit_test(allocator__prefers_what_was_freed_last),
        cmocka_unit_test(allocator__random_blocks_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
