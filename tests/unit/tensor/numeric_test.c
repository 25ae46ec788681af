// SPDX-License-Identifier: Apache-2.0
//
// The scalar definitions against independent ones: values are computed from the fields with ldexp,
// nearest codes by comparing a value with its two neighbours in double precision.
#include "unit/check.h"

#include <math.h>

#include "tensor/numeric.h"

// Value of a code of 1-6-9 by its fields, as the format's description says.
static double dl16_value(uint16_t code)
{
    int exponent = code >> 9 & 63, fraction = code & 511;
    double sign = code & 0x8000 ? -1.0 : 1.0;
    if (exponent == 0 && fraction == 0) return sign * 0.0;
    if (exponent == 63 && fraction == 511) return sign * INFINITY;
    return sign * ldexp(1.0 + fraction / 512.0, exponent - 31);
}

static void numeric__dl16_codes_decode_by_their_fields(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        double value = dl16_value((uint16_t)code);
        float got = dl16_to_float((uint16_t)code);
        if ((double)got != value || !signbit(got) != !signbit(value)) fail_msg("code %04x", code);
    }
}

static void numeric__dl16_codes_round_trip(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        float value = dl16_to_float((uint16_t)code);
        assert_int_equal(dl16_from_float(value), code);
        assert_int_equal(dl16_from_host_float(value), code);
    }
}

// The nearest code of a finite magnitude, ties to the larger one, 2^-31 and less being zero; an
// overflow gives the merged code.
static uint16_t nearest_dl16(double magnitude)
{
    if (magnitude >= dl16_value(DL16_LARGEST))
        return magnitude >= 0x1p32 * (1 + 511 / 512.0) - 0x1p22 ? DL16_MERGED : DL16_LARGEST;
    uint32_t low = 0, high = DL16_LARGEST;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (dl16_value((uint16_t)middle) <= magnitude) low = middle;
        else high = middle;
    }
    // The pattern of 2^-31 is zero's, so rounding happens between 2^-31 and the first code above.
    double below = low ? dl16_value((uint16_t)low) : 0x1p-31;
    double above = dl16_value((uint16_t)high);
    if (magnitude < below) return 0;
    return (uint16_t)(magnitude - below < above - magnitude ? low : high);
}

static void check_dl16(float value)
{
    float magnitude = fabsf(value);
    uint16_t sign = signbit(value) && !isnan(value) ? 0x8000 : 0;
    uint16_t expected = sign | (isfinite(value) ? nearest_dl16((double)magnitude) : DL16_MERGED);
    uint16_t host = expected;
    if (isfinite(value) && (host & 0x7FFF) == DL16_MERGED) host = sign | DL16_LARGEST;
    if (dl16_from_float(value) != expected || dl16_from_host_float(value) != host)
        fail_msg("%a: %04x, expected %04x", (double)value, dl16_from_float(value), expected);
}

static void numeric__dl16_rounds_to_nearest_ties_away(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < DL16_MERGED; code++) {
        // The midpoint to the next code, its fp32 neighbours, and those of the code itself.
        float here = code ? dl16_to_float((uint16_t)code) : 0x1p-31f;
        float middle = float_from_bits(float_bits(here) + (1u << 13));
        const float near[] = {here, middle};
        for (int i = 0; i < 2; i++) {
            check_dl16(near[i]);
            check_dl16(-nextafterf(near[i], 0.0f));
            check_dl16(nextafterf(near[i], INFINITY));
        }
    }
    uint64_t seed = 1;
    for (int i = 0; i < 300000; i++) check_dl16(float_from_bits((uint32_t)check_random(&seed)));
}

static void numeric__dl16_special_values(void **state)
{
    (void)state;
    assert_int_equal(dl16_from_float(1.0f), 31 << 9);
    assert_int_equal(dl16_from_float(0x1p-31f), 0);
    assert_int_equal(dl16_from_float(-0x1p-31f), 0x8000);
    assert_int_equal(dl16_from_float(0x1p-149f), 0);
    const float nans[] = {NAN, -NAN, float_from_bits(0x7F800001), float_from_bits(0xFFFFFFFF)};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        assert_int_equal(dl16_from_float(nans[i]), DL16_MERGED);
        assert_int_equal(dl16_from_host_float(nans[i]), DL16_MERGED);
    }
    assert_int_equal(dl16_from_float(-INFINITY), 0xFFFF);
    assert_int_equal(dl16_from_host_float(-INFINITY), 0xFFFF);
    assert_int_equal(dl16_from_float(3e38f), DL16_MERGED);
    assert_int_equal(dl16_from_host_float(3e38f), DL16_LARGEST);
    assert_int_equal(dl16_from_host_float(-3e38f), 0x8000 | DL16_LARGEST);
    assert_true(dl16_to_float(DL16_LARGEST) == 0x1p32f * (1 + 510 / 512.0f));
    // Integers are exact to 1024.
    for (int i = 0; i <= 1024; i++)
        assert_true(dl16_to_float(dl16_from_float((float)i)) == (float)i);
    assert_true(dl16_to_float(dl16_from_float(1025.0f)) == 1026.0f);
}

// To the significand alone, of any exponent.
static float round_significand(float value)
{
    return float_from_bits((float_bits(value) + (1u << 13)) & ~0u << DL16_FRACTION_SHIFT);
}

// A term with all others; whether rounding all sums to the significand alone gives their values.
static bool rounds_alike(float term)
{
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        float x = dl16_to_float((uint16_t)code);
        float sums[] = {x + term, x - term};
        for (int n = 0; n < 2; n++)
            if (float_bits(round_significand(sums[n])) !=
                float_bits(dl16_to_float(dl16_from_float(sums[n]))))
                return false;
    }
    return true;
}

static void numeric__sums_that_stay_within_dl16_need_no_look_at_their_range(void **state)
{
    (void)state;
    uint32_t within = 0, beyond = 0;
    // Every code near the bounds, one of many between them.
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        uint32_t exponent = code >> 9 & 63;
        bool near = exponent >= 11 && exponent <= 13 ? true : exponent >= 52 && exponent <= 54;
        if (code % (near ? 17 : 191) && (code & 511) != 0 && (code & 511) != 511) continue;
        float term = dl16_to_float((uint16_t)code);
        if (!dl16_sums_stay_within(term)) {
            beyond++;
            continue;
        }
        if (!rounds_alike(term)) fail_msg("term %g", (double)term);
        within++;
    }
    assert_true(within > 500 && beyond > 100);
    // There are terms beyond the bounds whose sums do leave the range.
    assert_false(rounds_alike(dl16_to_float(1)));
    assert_false(rounds_alike(0x1p22f));
    assert_false(dl16_sums_stay_within(INFINITY) || dl16_sums_stay_within(NAN));
}

static void numeric__fp16_codes_decode_by_their_fields(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        int exponent = code >> 10 & 31, fraction = code & 1023;
        double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31) value = fraction ? NAN : INFINITY;
        float got = fp16_to_float((uint16_t)code);
        if (isnan(value)) assert_true(isnan(got));
        else assert_true((double)fabsf(got) == value);
        assert_int_equal(!signbit(got), !(code & 0x8000));
        if (!isnan(value)) assert_int_equal(fp16_from_float(got), code);
    }
}

// Rounds by the processor's own arithmetic on a scaled integer, to nearest even.
static double nearest_even(double magnitude, int fraction_bits, int least_exponent)
{
    int exponent;
    if (magnitude == 0.0) return 0.0;
    frexp(magnitude, &exponent);
    exponent = exponent - 1 < least_exponent ? least_exponent : exponent - 1;
    double unit = ldexp(1.0, exponent - fraction_bits);
    return rint(magnitude / unit) * unit;
}

static void numeric__fp16_rounds_to_nearest_even(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)check_random(&seed);
        // Half of the patterns in fp16's own range, where rounding is interesting.
        if (i % 2) bits = (bits & 0x80FFFFFF) | (100 + bits % 48) << 23;
        if (i % 3 == 0) bits &= 0xFFFFF000;
        float value = float_from_bits(bits);
        if (isnan(value)) continue;
        double expected = nearest_even((double)fabsf(value), 10, -14);
        if (expected > 65504.0) expected = INFINITY;
        float got = fp16_to_float(fp16_from_float(value));
        if ((double)fabsf(got) != expected || !signbit(got) != !signbit(value))
            fail_msg("%a gives %a", (double)value, (double)got);
    }
    assert_int_equal(fp16_from_float(65519.996f), 0x7BFF);
    assert_int_equal(fp16_from_float(65520.0f), 0x7C00);
    assert_int_equal(fp16_from_float(NAN) & 0x7E00, 0x7E00);
}

static void numeric__bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        float value = bf16_to_float((uint16_t)code);
        if (isnan(value)) assert_true(isnan(bf16_to_float(bf16_from_float(value))));
        else assert_int_equal(bf16_from_float(value), code);
    }
    assert_int_equal(bf16_from_float(float_from_bits(0x3F808000)), 0x3F80);
    assert_int_equal(bf16_from_float(float_from_bits(0x3F818000)), 0x3F82);
    assert_int_equal(bf16_from_float(float_from_bits(0x3F808001)), 0x3F81);
    assert_int_equal(bf16_from_float(float_from_bits(0x7F7FFFFF)), 0x7F80);
    assert_true(isnan(bf16_to_float(bf16_from_float(float_from_bits(0x7F800001)))));
}

// fp16 -> DL16 -> fp16, the policy in full: at most one rounding to nine fraction bits, ties away
// from zero; 65504 stays; infinities stay; NaN comes back as positive infinity.
static void numeric__fp16_survives_the_card(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        float value = fp16_to_float((uint16_t)code);
        uint16_t back = dl16_to_host_fp16(dl16_from_host_float(value));
        uint32_t magnitude = code & 0x7FFF, sign = magnitude > 0x7C00 ? 0 : code & 0x8000;
        uint32_t expected = magnitude >= 0x7C00 ? 0x7C00 : magnitude;
        // Subnormals have ten significant bits at most, as many as DL16 keeps.
        if (magnitude >= 0x0400 && magnitude < 0x7BFF) expected = (magnitude + 1) & ~1u;
        if (back != (sign | expected)) fail_msg("code %04x comes back as %04x", code, back);
    }
}

static void numeric__dl16_reads_back_as_fp16(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFFFF; code++) {
        float value = dl16_to_float((uint16_t)code);
        uint16_t expected = fp16_from_float(value);
        if (fabsf(value) == 65536.0f) expected = signbit(value) ? 0xFBFF : 0x7BFF;
        assert_int_equal(dl16_to_host_fp16((uint16_t)code), expected);
    }
}

static void numeric__fp8_codes_round_trip(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xFF; code++) {
        float four = fp8_e4m3_to_float((uint8_t)code), five = fp8_e5m2z_to_float((uint8_t)code);
        assert_int_equal(isnan(four) != 0, (code & 0x7F) == 0x7F);
        assert_int_equal(isnan(five) != 0, code == 0x80);
        assert_int_equal(fp8_e4m3_from_float(four), code);
        assert_int_equal(fp8_e5m2z_from_float(five), code);
    }
    assert_true(fp8_e4m3_to_float(0x7E) == 448.0f);
    assert_true(fp8_e4m3_to_float(0x01) == 0x1p-9f);
    assert_true(fp8_e5m2z_to_float(0x7F) == 57344.0f);
    assert_true(fp8_e5m2z_to_float(0x01) == 0x1p-17f);
}

static void numeric__fp8_rounds_and_overflows(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)check_random(&seed);
        bits = (bits & 0x80FFFFFF) | (105 + bits % 45) << 23;
        if (i % 3 == 0) bits &= 0xFFF00000;
        float value = float_from_bits(bits);
        double four = fmin(nearest_even((double)fabsf(value), 3, -6), 448.0);
        double five = nearest_even((double)fabsf(value), 2, -15);
        assert_true((double)fabsf(fp8_e4m3_to_float(fp8_e4m3_from_float(value))) == four);
        float back_five = fabsf(fp8_e5m2z_to_float(fp8_e5m2z_from_float(value)));
        assert_true(five > 57344.0 ? isnan(back_five) : (double)back_five == five);
    }
    assert_int_equal(fp8_e4m3_from_float(480.0f), 0x7E);
    assert_int_equal(fp8_e4m3_from_float(INFINITY), 0x7E);
    assert_int_equal(fp8_e4m3_from_float(-INFINITY), 0xFE);
    assert_int_equal(fp8_e5m2z_from_float(61439.0f), 0x7F);
    assert_int_equal(fp8_e5m2z_from_float(61440.0f), 0x80);
    assert_int_equal(fp8_e5m2z_from_float(-1e9f), 0x80);
    assert_int_equal(fp8_e5m2z_from_float(-0.0f), 0);
    assert_int_equal(fp8_e5m2z_from_float(-NAN), 0x80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numeric__dl16_codes_decode_by_their_fields),
        cmocka_unit_test(numeric__dl16_codes_round_trip),
        cmocka_unit_test(numeric__dl16_rounds_to_nearest_ties_away),
        cmocka_unit_test(numeric__dl16_special_values),
        cmocka_unit_test(numeric__sums_that_stay_within_dl16_need_no_look_at_their_range),
        cmocka_unit_test(numeric__fp16_codes_decode_by_their_fields),
        cmocka_unit_test(numeric__fp16_rounds_to_nearest_even),
        cmocka_unit_test(numeric__bf16_rounds_to_nearest_even),
        cmocka_unit_test(numeric__fp16_survives_the_card),
        cmocka_unit_test(numeric__dl16_reads_back_as_fp16),
        cmocka_unit_test(numeric__fp8_codes_round_trip),
        cmocka_unit_test(numeric__fp8_rounds_and_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
