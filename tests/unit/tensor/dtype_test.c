// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "spyre/dtype.h"

static void dtype__formats_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(spyre_format_name(SPYRE_FORMAT_SEN169_FP16), "SEN169_FP16");
    assert_string_equal(spyre_format_name((spyre_format)99), "?");
    for (int i = 0; i < SPYRE_FORMAT_COUNT; i++) {
        const char *name = spyre_format_name((spyre_format)i);
        assert_int_equal(spyre_format_named(name), i);
    }
    assert_int_equal(spyre_format_named("fp16"), SPYRE_FORMAT_INVALID);
    assert_int_equal(spyre_format_bytes(SPYRE_FORMAT_IEEE_INT64), 8);
    assert_int_equal(spyre_format_bytes(SPYRE_FORMAT_SENINT24), 3);
    assert_int_equal(spyre_format_bytes(SPYRE_FORMAT_SENINT4), 0);
    assert_int_equal(spyre_format_bytes(SPYRE_FORMAT_SEN153_FP9), 0);
    assert_int_equal(spyre_format_bytes(SPYRE_FORMAT_INVALID), 0);
    assert_int_equal(spyre_format_bits((spyre_format)-1), 0);
}

static void dtype__sticks_hold_128_bytes(void **state)
{
    (void)state;
    assert_int_equal(spyre_format_elements_per_stick(SPYRE_FORMAT_SEN169_FP16), 64);
    assert_int_equal(spyre_format_elements_per_stick(SPYRE_FORMAT_IEEE_FP32), 32);
    assert_int_equal(spyre_format_elements_per_stick(SPYRE_FORMAT_SEN143_FP8), 128);
    assert_int_equal(spyre_format_elements_per_stick(SPYRE_FORMAT_SENUINT32), 32);
    assert_int_equal(spyre_format_elements_per_stick(SPYRE_FORMAT_SENINT4), 256);
    assert_int_equal(spyre_format_elements_per_stick(SPYRE_FORMAT_INVALID), 0);
}

static void dtype__dtypes_have_default_formats(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t bytes;
        spyre_format card;
    } rows[] = {
        {"float16", 2, SPYRE_FORMAT_SEN169_FP16},  {"bfloat16", 2, SPYRE_FORMAT_SEN169_FP16},
        {"bool", 1, SPYRE_FORMAT_SEN169_FP16},     {"float32", 4, SPYRE_FORMAT_IEEE_FP32},
        {"int64", 8, SPYRE_FORMAT_IEEE_INT32},     {"int32", 4, SPYRE_FORMAT_IEEE_INT32},
        {"int16", 2, SPYRE_FORMAT_SENINT16},       {"int8", 1, SPYRE_FORMAT_SENINT8},
        {"uint8", 1, SPYRE_FORMAT_SENUINT32},      {"float8_e4m3fn", 1, SPYRE_FORMAT_SEN143_FP8},
        {"float8_e5m2fnuz", 1, SPYRE_FORMAT_SEN152_FP8}, {"float64", 8, SPYRE_FORMAT_INVALID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spyre_dtype dtype;
        assert_ok(spyre_dtype_named(rows[i].name, &dtype));
        assert_string_equal(spyre_dtype_name(dtype), rows[i].name);
        assert_int_equal(spyre_dtype_bytes(dtype), rows[i].bytes);
        assert_int_equal(spyre_dtype_card_format(dtype), rows[i].card);
        if (rows[i].card == SPYRE_FORMAT_INVALID) continue;
        assert_int_equal(spyre_format_bytes(spyre_dtype_host_format(dtype)), rows[i].bytes);
    }
    spyre_dtype dtype;
    assert_error(spyre_dtype_named("half", &dtype), SPYRE_NOT_FOUND, "dtype \"half\"");
    assert_string_equal(spyre_dtype_name(SPYRE_DTYPE_COUNT), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtype__formats_have_names_and_sizes),
        cmocka_unit_test(dtype__sticks_hold_128_bytes),
        cmocka_unit_test(dtype__dtypes_have_default_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
