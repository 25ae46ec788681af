// SPDX-License-Identifier: Apache-2.0
//
// Entries of a ranking against plain comparisons of floats and integers.
#include "unit/check.h"

#include <math.h>

#include "tensor/ranking.h"

static const float samples[] = {-INFINITY, -3e38f, -1.0f, -1e-45f, -0.0f,   0.0f,
                                1e-45f,    0.5f,   1.0f,  3e38f,   INFINITY};
enum { SAMPLES = sizeof samples / sizeof *samples };

static void ranking__floats_keep_their_order(void **state)
{
    (void)state;
    for (uint32_t a = 0; a < SAMPLES; a++) {
        assert_true(ranking_of_float(samples[a]) < ranking_of_float(NAN));
        assert_true(ranking_of_float(samples[a]) < ranking_of_float(-NAN));
        for (uint32_t b = 0; b < SAMPLES; b++) {
            int32_t x = ranking_of_float(samples[a]), y = ranking_of_float(samples[b]);
            assert_int_equal(x < y, samples[a] < samples[b]);
            assert_int_equal(x == y, samples[a] == samples[b]);
            assert_int_equal(ranking_turned(OPFUNC_BOTTOMKVALUE, x) >
                                 ranking_turned(OPFUNC_BOTTOMKVALUE, y),
                             samples[a] < samples[b]);
        }
    }
}

static void ranking__every_code_comes_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t element = (uint16_t)code, back;
        int64_t entry =
            ranking_entry(ranking_load(OPFUNC_TOPKVALUE, &element, SPYRE_FORMAT_SEN169_FP16), code);
        ranking_store(OPFUNC_TOPKVALUE, entry, &back, SPYRE_FORMAT_SEN169_FP16);
        assert_int_equal(back, code == 0x8000 ? 0 : code);      // -0 and 0 are one value
        int32_t position;
        ranking_store(OPFUNC_TOPKINDEX, entry, &position, SPYRE_FORMAT_IEEE_INT32);
        assert_int_equal(position, code);
    }
    const int32_t integers[] = {INT32_MIN, -1, 0, 16777217, INT32_MAX};
    for (uint32_t i = 0; i < 5; i++) {
        int32_t back;
        int64_t entry =
            ranking_entry(ranking_load(OPFUNC_TOPKVALUE, &integers[i], SPYRE_FORMAT_IEEE_INT32), i);
        assert_true(entry > RANKING_NONE);
        ranking_store(OPFUNC_TOPKVALUE, entry, &back, SPYRE_FORMAT_IEEE_INT32);
        assert_int_equal(back, integers[i]);
        entry = ranking_entry(
            ranking_load(OPFUNC_BOTTOMKVALUE, &integers[i], SPYRE_FORMAT_IEEE_INT32), i);
        assert_true(entry > RANKING_NONE);
        ranking_store(OPFUNC_BOTTOMKVALUE, entry, &back, SPYRE_FORMAT_IEEE_INT32);
        assert_int_equal(back, integers[i]);
    }
}

static void ranking__nothing_is_nan_at_minus_one(void **state)
{
    (void)state;
    float value;
    int32_t position;
    ranking_store(OPFUNC_TOPKVALUE, RANKING_NONE, &value, SPYRE_FORMAT_IEEE_FP32);
    ranking_store(OPFUNC_TOPKINDEX, RANKING_NONE, &position, SPYRE_FORMAT_IEEE_INT32);
    assert_true(isnan(value));
    assert_int_equal(position, -1);
}

// Seven numbers in forty places: equal ones stay in the order of their positions.
static void ranking__equal_values_by_position(void **state)
{
    (void)state;
    enum { COUNT = 40, RANKS = 9, APART = 2 };
    int64_t entries[RANKS * APART];
    for (uint32_t r = 0; r < RANKS * APART; r++) entries[r] = RANKING_NONE;
    int32_t value[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        value[i] = (int32_t)(i * 5 % 7) - 3;
        ranking_insert((uint8_t *)entries, APART * sizeof *entries, RANKS,
                       ranking_entry(value[i], i));
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        uint32_t position = ranking_position(entries[r * APART]), before = 0;
        for (uint32_t i = 0; i < COUNT; i++)
            before += value[i] > value[position] || (value[i] == value[position] && i < position);
        assert_int_equal(before, r);
        assert_int_equal(ranking_value(entries[r * APART]), value[position]);
        assert_true(entries[r * APART + 1] == RANKING_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranking__floats_keep_their_order),
        cmocka_unit_test(ranking__every_code_comes_back),
        cmocka_unit_test(ranking__nothing_is_nan_at_minus_one),
        cmocka_unit_test(ranking__equal_values_by_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
