// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include <math.h>

#include "comm/combine.h"
#include "tensor/opfunc.h"

enum { RANKS = 8, COUNT = 2500 };

static const spyre_format FLOATS[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32,
                                      SPYRE_FORMAT_IEEE_FP16,   SPYRE_FORMAT_BFLOAT16,
                                      SPYRE_FORMAT_SEN143_FP8,  SPYRE_FORMAT_SEN152_FP8};

static uint8_t storage[RANKS][COUNT * 8];
static const void *inputs[RANKS];

static uint64_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void fill(spyre_format format, uint64_t seed)
{
    size_t bytes = spyre_format_bytes(format);
    for (uint32_t r = 0; r < RANKS; r++) {
        inputs[r] = storage[r];
        for (size_t i = 0; i < COUNT; i++)
            element_store(storage[r] + i * bytes, format,
                          ((double)random_next(&seed) / 1073741824.0 - 1.0) * 3.0);
    }
}

static float plain(spyre_reduction reduction, spyre_format format, uint32_t ranks, size_t i)
{
    size_t bytes = spyre_format_bytes(format);
    volatile float sum = (float)element_load(storage[0] + i * bytes, format);
    for (uint32_t r = 1; r < ranks; r++) {
        float x = (float)element_load(storage[r] + i * bytes, format);
        if (reduction == SPYRE_REDUCE_MAX) sum = x > sum ? x : sum;
        if (reduction == SPYRE_REDUCE_MIN) sum = x < sum ? x : sum;
        if (reduction == SPYRE_REDUCE_PROD) sum = sum * x;
        if (reduction == SPYRE_REDUCE_SUM || reduction == SPYRE_REDUCE_AVG) sum = sum + x;
    }
    return reduction == SPYRE_REDUCE_AVG ? sum / (float)ranks : sum;
}

static void combine__is_rank_ascending_fp32_rounded_once(void **state)
{
    (void)state;
    static uint8_t target[COUNT * 8];
    for (size_t f = 0; f < sizeof FLOATS / sizeof FLOATS[0]; f++) {
        size_t bytes = spyre_format_bytes(FLOATS[f]);
        for (int op = 0; op < SPYRE_REDUCE_COUNT; op++)
            for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
                fill(FLOATS[f], ranks * 31u + (uint64_t)op);
                comm_combine((spyre_reduction)op, FLOATS[f], inputs, ranks, COUNT,
                                       target);
                for (size_t i = 0; i < COUNT; i++) {
                    uint8_t expected[8];
                    element_store(expected, FLOATS[f],
                                  (double)plain((spyre_reduction)op, FLOATS[f], ranks, i));
                    assert_memory_equal(target + i * bytes, expected, bytes);
                }
            }
    }
}

static void combine__split_and_place_do_not_matter(void **state)
{
    (void)state;
    static float whole[COUNT];
    fill(SPYRE_FORMAT_IEEE_FP32, 5);
    comm_combine(SPYRE_REDUCE_SUM, SPYRE_FORMAT_IEEE_FP32, inputs, RANKS, COUNT, whole);
    for (size_t at = 0, part = 1; at < COUNT; at += part, part = part * 2 + 1) {
        const void *pieces[RANKS];
        if (part > COUNT - at) part = COUNT - at;
        for (uint32_t r = 0; r < RANKS; r++) pieces[r] = storage[r] + at * sizeof(float);
        comm_combine(SPYRE_REDUCE_SUM, SPYRE_FORMAT_IEEE_FP32, pieces, RANKS, part,
                               storage[3] + at * sizeof(float));
    }
    assert_memory_equal(storage[3], whole, sizeof whole);
}

static void combine__integers_wrap(void **state)
{
    (void)state;
    int32_t a[2] = {INT32_MAX, -7}, b[2] = {1, 3}, result[2];
    const void *pair[] = {a, b};
    comm_combine(SPYRE_REDUCE_SUM, SPYRE_FORMAT_IEEE_INT32, pair, 2, 2, result);
    assert_int_equal(result[0], INT32_MIN);
    assert_int_equal(result[1], -4);
    comm_combine(SPYRE_REDUCE_PROD, SPYRE_FORMAT_IEEE_INT32, pair, 2, 2, result);
    assert_int_equal(result[1], -21);
    comm_combine(SPYRE_REDUCE_MIN, SPYRE_FORMAT_IEEE_INT32, pair, 2, 2, result);
    assert_int_equal(result[1], -7);
    int64_t c[1] = {INT64_C(9007199254740993)}, d[1] = {1}, sum[1];
    const void *wide[] = {c, d};
    comm_combine(SPYRE_REDUCE_SUM, SPYRE_FORMAT_IEEE_INT64, wide, 2, 1, sum);
    assert_true(sum[0] == INT64_C(9007199254740994));
}

static void combine__nan_wins(void **state)
{
    (void)state;
    float a[2] = {NAN, 1.0f}, b[2] = {2.0f, NAN}, result[2];
    const void *pair[] = {a, b};
    for (int op = 0; op < SPYRE_REDUCE_COUNT; op++) {
        comm_combine((spyre_reduction)op, SPYRE_FORMAT_IEEE_FP32, pair, 2, 2, result);
        assert_true(isnan(result[0]) && isnan(result[1]));
    }
}

static void combine__refuses(void **state)
{
    (void)state;
    assert_error(comm_combine_check(SPYRE_REDUCE_COUNT, SPYRE_FORMAT_IEEE_INT32),
                 SPYRE_INVALID_ARGUMENT, "reduction 5: must be below 5");
    assert_error(comm_combine_check(SPYRE_REDUCE_AVG, SPYRE_FORMAT_IEEE_INT32), SPYRE_UNSUPPORTED,
                 "avg of format IEEE_INT32");
    assert_error(comm_combine_check(SPYRE_REDUCE_SUM, SPYRE_FORMAT_BOOL), SPYRE_UNSUPPORTED,
                 "sum of format BOOL");
    assert_ok(comm_combine_check(SPYRE_REDUCE_AVG, SPYRE_FORMAT_SEN169_FP16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine__is_rank_ascending_fp32_rounded_once),
        cmocka_unit_test(combine__split_and_place_do_not_matter),
        cmocka_unit_test(combine__integers_wrap),
        cmocka_unit_test(combine__nan_wins),
        cmocka_unit_test(combine__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
