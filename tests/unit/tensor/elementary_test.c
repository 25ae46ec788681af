// SPDX-License-Identifier: Apache-2.0
#include "unit/check.h"

#include "tensor/elementary.h"

enum { SAMPLES = 200000 };
static const double INFINITE = (double)INFINITY;

// In units of the last place of what is wanted.
static double error_of(double value, long double wanted)
{
    const double size = fabs((double)wanted);
    return (double)fabsl((long double)value - wanted) / (nextafter(size, INFINITE) - size);
}

static void elementary__values_are_within_two_units(void **state)
{
    (void)state;
    for (int n = 1; n < SAMPLES; n++) {
        const double part = (double)n / SAMPLES, x = 1416.0 * part - 707.0;
        const double power = exp(200.0 * part - 100.0), near = 0.5 + 1.5 * part;
        assert_true(error_of(elementary_exp(x), expl((long double)x)) < 2.0);
        assert_true(error_of(elementary_exp(part), expl((long double)part)) < 2.0);
        assert_true(error_of(elementary_log(power), logl((long double)power)) < 2.0);
        assert_true(near == 1.0 || error_of(elementary_log(near), logl((long double)near)) < 2.0);
        assert_true(error_of(elementary_log1p(part), log1pl((long double)part)) < 2.0);
        assert_true(error_of(elementary_log1p(power), log1pl((long double)power)) < 2.0);
        assert_true(error_of(elementary_log1p(-part), log1pl(-(long double)part)) < 2.0);
        assert_true(error_of(elementary_atan2(part, near - 1.0),
                             atan2l((long double)part, (long double)near - 1.0L)) < 2.0);
        assert_true(error_of(elementary_atan2(part, power),
                             atan2l((long double)part, (long double)power)) < 2.1);
    }
}

// The nearest fp32, as good as always.
static void elementary__powers_round_to_fp32(void **state)
{
    (void)state;
    uint64_t seed = 3;
    int others = 0;
    for (int n = 0; n < SAMPLES; n++) {
        const uint64_t bits = check_random(&seed);
        const double x = (double)(float)exp((double)(bits >> 8 & 0xFFFF) / 0x1p12 - 8.0);
        const double y = (double)(float)((double)(bits >> 24 & 0xFFFFF) / 0x1p17 - 4.0);
        const float power = (float)elementary_pow(x, y), wanted = (float)powl(x, y);
        assert_true(fabsf(power - wanted) <= 0x1p-23f * wanted);
        others += power != wanted;
    }
    assert_true(others < SAMPLES / 10000);
}

// Of 41 bits: products of small numbers, ties of SEN169_FP16 among them.
static void elementary__powers_of_few_bits_are_exact(void **state)
{
    (void)state;
    for (int x = 1; x < 2048; x++) {
        for (int scale = -20; scale < 5; scale += 4) {
            const double size = ldexp((double)x, scale);
            assert_true(elementary_pow(size, 2.0) == size * size);
            assert_true(elementary_pow(-size, 3.0) == -(size * size * size));
            assert_true(elementary_pow(size * size, 0.5) == size);
        }
    }
}

static void elementary__special_powers(void **state)
{
    (void)state;
    static const double numbers[] = {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5,
                                     0x1p-149, -0x1p-149, 0x1p127, 0x1p24, 0x1p24 + 1.0, 0x1p25,
                                     0x1p53, (double)INFINITY, -(double)INFINITY, (double)NAN};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    for (int n = 0; n < COUNT * COUNT; n++) {
        const double x = numbers[n / COUNT], y = numbers[n % COUNT];
        const float power = (float)elementary_pow(x, y), wanted = (float)pow(x, y);
        if (isnan(wanted) ? !isnan(power) : power != wanted || !signbit(power) != !signbit(wanted))
            fail_msg("pow(%g, %g): %g, not %g", x, y, (double)power, (double)wanted);
    }
}

static void elementary__special_angles(void **state)
{
    (void)state;
    static const double numbers[] = {0.0, 1.0, 2.0, 0.5, 0x1.a827999fcef34p-2, 0x1.a827ap-2,
                                     0x1p-149, 0x1p127, (double)INFINITY, (double)NAN};
    enum { COUNT = 2 * sizeof numbers / sizeof *numbers };
    for (int n = 0; n < COUNT * COUNT; n++) {
        const int i = n / COUNT, k = n % COUNT;
        const double y = copysign(numbers[i / 2], i % 2 ? -1.0 : 1.0);
        const double x = copysign(numbers[k / 2], k % 2 ? -1.0 : 1.0);
        const float angle = (float)elementary_atan2(y, x), wanted = (float)atan2(y, x);
        if (isnan(wanted) ? !isnan(angle) : angle != wanted || !signbit(angle) != !signbit(wanted))
            fail_msg("atan2(%g, %g): %g, not %g", y, x, (double)angle, (double)wanted);
    }
}

static void elementary__ends(void **state)
{
    (void)state;
    assert_true(elementary_exp(0.0) == 1.0 && elementary_exp(1e-300) == 1.0);
    assert_true(elementary_exp(-707.5) == 0.0 && elementary_exp(-INFINITE) == 0.0);
    assert_true(isfinite(elementary_exp(709.0)) && isinf(elementary_exp(709.5)));
    assert_true(isinf(elementary_exp(INFINITE)) && isnan(elementary_exp((double)NAN)));
    assert_true(elementary_log(1.0) == 0.0 && elementary_log(INFINITE) == INFINITE);
    assert_true(elementary_log(0.0) == -INFINITE && elementary_log(-0.0) == -INFINITE);
    assert_true(isnan(elementary_log(-1.0)) && isnan(elementary_log(-INFINITE)));
    assert_true(isnan(elementary_log((double)NAN)));
    assert_true(elementary_log1p(0.0) == 0.0 && elementary_log1p(INFINITE) == INFINITE);
    assert_true(elementary_log1p(-1.0) == -INFINITE && isnan(elementary_log1p(-1.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementary__values_are_within_two_units),
        cmocka_unit_test(elementary__powers_round_to_fp32),
        cmocka_unit_test(elementary__powers_of_few_bits_are_exact),
        cmocka_unit_test(elementary__special_powers),
        cmocka_unit_test(elementary__special_angles),
        cmocka_unit_test(elementary__ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
