// SPDX-License-Identifier: Apache-2.0
//
// Pairs of formats by the rules of convert.h, with a kernel or without one.
#include "unit/check.h"

#include <math.h>

#include "tensor/convert.h"
#include "tensor/numeric.h"

static void convert(void *target, spyre_format target_format, const void *source,
                    spyre_format source_format, size_t count)
{
    converter c;
    assert_ok(converter_find(target_format, source_format, &c));
    converter_run(&c, target, source, count);
}

static void convert_pairs__follow_the_rules(void **state)
{
    (void)state;
    const float floats[] = {0.5f, -2.75f, 300.0f, NAN, 1e30f, -1e30f, -0.0f};
    int64_t longs[7];
    int32_t words[4];
    uint8_t bytes[7];
    uint16_t halves[7];
    float back[7];
    convert(longs, SPYRE_FORMAT_IEEE_INT64, floats, SPYRE_FORMAT_IEEE_FP32, 7);
    const int64_t cut[] = {0, -2, 300, INT64_MIN, INT64_MAX, INT64_MIN, 0};
    assert_memory_equal(longs, cut, sizeof cut);
    convert(words, SPYRE_FORMAT_IEEE_INT32, floats, SPYRE_FORMAT_IEEE_FP32, 4);
    assert_int_equal(words[3], INT32_MIN);
    convert(bytes, SPYRE_FORMAT_SENINT8, floats, SPYRE_FORMAT_IEEE_FP32, 3);
    assert_memory_equal(bytes, "\x00\xfe\x2c", 3);
    convert(bytes, SPYRE_FORMAT_BOOL, floats, SPYRE_FORMAT_IEEE_FP32, 7);
    assert_memory_equal(bytes, "\1\1\1\1\1\1\0", 7);
    convert(halves, SPYRE_FORMAT_IEEE_FP16, floats, SPYRE_FORMAT_IEEE_FP32, 7);
    assert_int_equal(halves[4], 0x7C00);
    convert(back, SPYRE_FORMAT_IEEE_FP32, halves, SPYRE_FORMAT_IEEE_FP16, 3);
    assert_memory_equal(back, floats, 3 * sizeof *back);
    convert(halves, SPYRE_FORMAT_SEN169_FP16, cut, SPYRE_FORMAT_IEEE_INT64, 6);
    assert_int_equal(halves[2], dl16_from_host_float(300.0f));
    assert_int_equal(halves[4], DL16_LARGEST);
    const int8_t minus = -1;
    uint16_t word;
    convert(&word, SPYRE_FORMAT_SENINT16, &minus, SPYRE_FORMAT_SENINT8, 1);
    assert_int_equal(word, 0xFFFF);
    convert(bytes, SPYRE_FORMAT_SEN143_FP8, floats, SPYRE_FORMAT_IEEE_FP32, 1);
    assert_int_equal(bytes[0], fp8_e4m3_from_float(0.5f));
}

static void convert_pairs__runs_cross_blocks(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static uint16_t halves[COUNT];
    static float floats[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) halves[i] = (uint16_t)(i * 31);
    convert(floats, SPYRE_FORMAT_IEEE_FP32, halves, SPYRE_FORMAT_IEEE_FP16, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) assert_true(floats[i] == fp16_to_float(halves[i]));
}

static void convert_pairs__same_format_copies_bytes(void **state)
{
    (void)state;
    const uint32_t odd = 0x7F800001;
    uint32_t got = 0;
    convert(&got, SPYRE_FORMAT_IEEE_FP32, &odd, SPYRE_FORMAT_IEEE_FP32, 1);
    assert_int_equal(got, odd);
    for (int i = 0; i < SPYRE_FORMAT_COUNT; i++) {
        spyre_format format = (spyre_format)i;
        uint32_t bytes = spyre_format_bytes(format);
        unsigned char source[40] = "0123456789abcdefghijklmnopqrstuvwxyz", target[40] = "";
        if (!bytes) continue;
        convert(target, format, source, format, 4);
        assert_memory_equal(target, source, 4 * bytes);
        assert_int_equal(target[4 * bytes], 0);
    }
}

static void convert_pairs__unknown_ones_are_named(void **state)
{
    (void)state;
    converter c;
    assert_error(converter_find(SPYRE_FORMAT_SENINT4, SPYRE_FORMAT_IEEE_FP16, &c),
                 SPYRE_UNSUPPORTED, "no conversion from IEEE_FP16 to SENINT4");
    assert_error(converter_find(SPYRE_FORMAT_INVALID, SPYRE_FORMAT_INVALID, &c), SPYRE_UNSUPPORTED,
                 "INVALID");
    assert_error(converter_find(SPYRE_FORMAT_SENINT2, SPYRE_FORMAT_SENINT2, &c), SPYRE_UNSUPPORTED,
                 "SENINT2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convert_pairs__follow_the_rules),
        cmocka_unit_test(convert_pairs__runs_cross_blocks),
        cmocka_unit_test(convert_pairs__same_format_copies_bytes),
        cmocka_unit_test(convert_pairs__unknown_ones_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
