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
        const double part = (double)n / SAMPLES, x = 1416.7 * part - 707.0;
        const double power = exp(200.0 * part - 100.0), near = 0.5 + 1.5 * part;
        assert_true(error_of(elementary_exp(x), expl((long double)x)) < 2.0);
        assert_true(error_of(elementary_exp(part), expl((long double)part)) < 2.0);
        assert_true(error_of(elementary_log(power), logl((long double)power)) < 2.0);
        assert_true(near == 1.0 || error_of(elementary_log(near), logl((long double)near)) < 2.0);
        assert_true(error_of(elementary_log1p(part), log1pl((long double)part)) < 2.0);
        assert_true(error_of(elementary_log1p(power), log1pl((long double)power)) < 2.0);
    }
}

static void elementary__ends(void **state)
{
    (void)state;
    assert_true(elementary_exp(0.0) == 1.0 && elementary_exp(1e-300) == 1.0);
    assert_true(elementary_exp(-707.5) == 0.0 && elementary_exp(-INFINITE) == 0.0);
    assert_true(isfinite(elementary_exp(0x1.62e42fefa39efp9)) && isinf(elementary_exp(709.79)));
    assert_true(isinf(elementary_exp(INFINITE)) && isnan(elementary_exp((double)NAN)));
    assert_true(elementary_log(1.0) == 0.0 && elementary_log(INFINITE) == INFINITE);
    assert_true(elementary_log(0.0) == -INFINITE && elementary_log(-0.0) == -INFINITE);
    assert_true(isnan(elementary_log(-1.0)) && isnan(elementary_log(-INFINITE)));
    assert_true(isnan(elementary_log((double)NAN)));
    assert_true(elementary_log1p(0.0) == 0.0 && elementary_log1p(INFINITE) == INFINITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementary__values_are_within_two_units),
        cmocka_unit_test(elementary__ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
