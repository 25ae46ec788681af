// SPDX-License-Identifier: Apache-2.0
//
// Random nests against the digits of their indices.
#include "program.h"

#include "card/row_fusion/nested_strides.h"
#include "support/rounds.h"

enum { MOST_INDICES = 1 << NESTED_STRIDES_MOST_LEVELS * 3 };

typedef struct {
    nested_strides nest;
    size_t count;
    int64_t at[MOST_INDICES];
} random_nest;

// Levels of extent 1, and some that go on at the stride of the level inside of them, too.
static void make_nest(random_nest *r, uint64_t *seed)
{
    int64_t stride = 0, extent = 1;
    r->nest = (nested_strides){0};
    r->count = 1;
    r->at[0] = 0;
    for (uint32_t level = 0; level < NESTED_STRIDES_MOST_LEVELS; level++) {
        const bool goes_on = next_random(seed) % 4 == 0;
        stride = goes_on ? stride * extent : 64 * ((int64_t)(next_random(seed) % 20) - 4);
        extent = 1 + next_random(seed) % 8;
        assert_true(nested_strides_add(&r->nest, extent, stride));
        for (size_t n = r->count; n < r->count * (size_t)extent; n++)
            r->at[n] = r->at[n % r->count] + (int64_t)(n / r->count) * stride;
        r->count *= (size_t)extent;
    }
}

static void check_list(const random_nest *r, size_t first, size_t count)
{
    int64_t list[MOST_INDICES];
    const size_t run = nested_strides_run(&r->nest, first, count);
    nested_strides_list(&r->nest, first, count, list);
    assert_true(run > 0 && run <= count);
    for (size_t n = 0; n < count; n++) {
        assert_int_equal(nested_strides_at(&r->nest, first + n), r->at[first + n]);
        assert_int_equal(list[n], r->at[first + n] - r->at[first]);
        if (n < run) assert_int_equal(list[n], (int64_t)n * nested_strides_stride(&r->nest));
    }
}

static void check_blocks(const random_nest *r, size_t block)
{
    if (!nested_strides_has_blocks(&r->nest, block)) return;
    for (size_t n = block; n < r->count; n++)
        assert_int_equal(r->at[n] - r->at[n / block * block], r->at[n % block]);
}

static void check_reach(const random_nest *r)
{
    byte_range reach = {0, 1};
    int64_t low = 0, high = 0;
    nested_strides_reach(&r->nest, &reach);
    for (size_t n = 0; n < r->count; n++) {
        low = r->at[n] < low ? r->at[n] : low;
        high = r->at[n] > high ? r->at[n] : high;
    }
    assert_int_equal(reach.low, low);
    assert_int_equal(reach.high, high + 1);
    assert_int_equal(nested_strides_stands(&r->nest), low == 0 && high == 0);
}

static void nested_strides__indices_lie_where_their_digits_say(void **state)
{
    (void)state;
    uint64_t seed = 5;
    static random_nest r;
    for (uint32_t round = 0; round < test_rounds(2000); round++) {
        make_nest(&r, &seed);
        const size_t first = next_random(&seed) % r.count;
        check_list(&r, first, 1 + next_random(&seed) % (r.count - first));
        check_blocks(&r, 1 + next_random(&seed) % r.count);
        check_blocks(&r, r.nest.levels ? r.nest.extent[0] : 1);
        check_reach(&r);
    }
}

// A mask of a batch, the same for all heads: blocks of rows, of heads and of batches.
static void nested_strides__blocks_lie_alike_where_they_cut_no_level(void **state)
{
    (void)state;
    nested_strides mask = {0};
    assert_true(nested_strides_add(&mask, 256, 512) && nested_strides_add(&mask, 12, 0) &&
                nested_strides_add(&mask, 8, 131072));
    static const uint32_t alike[] = {1, 64, 256, 512, 1024, 3072, 6144}, other[] = {48, 384, 2048};
    for (size_t n = 0; n < sizeof alike / sizeof *alike; n++)
        assert_true(nested_strides_has_blocks(&mask, alike[n]));
    for (size_t n = 0; n < sizeof other / sizeof *other; n++)
        assert_false(nested_strides_has_blocks(&mask, other[n]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_strides__indices_lie_where_their_digits_say),
        cmocka_unit_test(nested_strides__blocks_lie_alike_where_they_cut_no_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
