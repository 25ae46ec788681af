// SPDX-License-Identifier: Apache-2.0
//
// Opfuncs over lanes of fp32 against opfunc_apply, bit for bit.
#include "unit/check.h"

#include <math.h>

#include "support/rounds.h"
#include "tensor/numeric.h"
#include "tensor/opfunc.h"

enum { LANES = 67 };

static float defined(opfunc op, const float *const *in, size_t n, const float *parameters)
{
    double inputs[OPFUNC_MAX_INPUTS];
    const uint32_t count = opfunc_describe(op)->least_inputs;
    for (uint32_t i = 0; i < count; i++) inputs[i] = (double)in[i][n];
    return (float)opfunc_apply(op, inputs, count, parameters);
}

static void check_lanes(opfunc op, const float *const *in, const float *parameters)
{
    float result[LANES];
    opfunc_apply_f32(op, result, in, parameters, LANES);
    for (size_t n = 0; n < LANES; n++) {
        const float wanted = defined(op, in, n, parameters);
        if (float_bits(result[n]) == float_bits(wanted)) continue;
        fail_msg("%s(%a, %a) is %a, wanted %a", opfunc_describe(op)->name, (double)in[0][n],
                 (double)in[1][n], (double)result[n], (double)wanted);
    }
}

// A value of any exponent, small numbers, and those that functions treat on their own.
static float some_value(uint64_t *seed)
{
    static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 2.0f, INFINITY, -INFINITY,
                                    NAN, 0x1p-149f, 0x1.fffffep127f, -3.0f, 89.0f, -104.5f};
    const uint64_t random = check_random(seed);
    const uint32_t kind = (uint32_t)(random >> 32) % 4;
    if (kind == 0) return special[random % (sizeof special / sizeof *special)];
    if (kind == 1) return float_from_bits((uint32_t)random);
    return (float)((double)(int32_t)random * (kind == 2 ? 0x1p-24 : 0x1p-30));
}

static void opfunc_f32__lanes_round_once(void **state)
{
    (void)state;
    static const float parameters[OPFUNC_MAX_PARAMETERS] = {0.75f, 3.0f};
    uint64_t seed = 5;
    for (opfunc op = 0; op < OPFUNC_COUNT; op++) {
        if (!opfunc_has_formula(op) || opfunc_makes_pairs(op)) continue;
        for (uint32_t round = 0; round < 40; round++) {
            float in[3][LANES];
            for (size_t n = 0; n < LANES; n++)
                for (size_t i = 0; i < 3; i++) in[i][n] = some_value(&seed);
            check_lanes(op, (const float *const[]){in[0], in[1], in[2]}, parameters);
        }
    }
}

// Of every float in the long test, else of one in some thousands, in order.
static void opfunc_f32__exp_is_that_of_fp64(void **state)
{
    (void)state;
    const uint64_t step = test_rounds(100) >= 1000 ? 1 : 4099;
    float x[LANES];
    for (uint64_t first = 0; first <= UINT32_MAX; first += step * LANES) {
        for (size_t n = 0; n < LANES; n++) x[n] = float_from_bits((uint32_t)(first + step * n));
        check_lanes(OPFUNC_EXP, (const float *const[]){x, x, x}, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opfunc_f32__lanes_round_once),
        cmocka_unit_test(opfunc_f32__exp_is_that_of_fp64),
    };
    return cmocka_run_group_tests_name("opfunc_f32", tests, NULL, NULL);
}
