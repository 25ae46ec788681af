// SPDX-License-Identifier: Apache-2.0
//
// Functions of two fp32 values, most of them of SEN169_FP16, against opfunc_apply, code for code.
#include "program.h"

#include <math.h>

#include "card/simd/narrow_formula.h"
#include "card/simd/simd.h"
#include "support/rounds.h"
#include "tensor/numeric.h"

enum { COUNT = 83 };

// Any code, or one of a size that functions are used with.
static uint16_t some_code(uint64_t *seed)
{
    const uint64_t random = next_random(seed);
    const uint16_t code = (uint16_t)random;
    const double small = (double)(int16_t)code / 0x1p12;
    switch (random >> 32 & 3) {
    case 0: return code;
    case 1: return dl16_from_float((float)small);
    case 2: return dl16_from_float((float)fabs(small));
    default: return dl16_from_float((float)(code % 64) / 8.0f - 2.0f);
    }
}

// With all bits of fp32, whole numbers times the same, or halfway between two codes.
static float some_value(uint64_t *seed, bool narrow)
{
    const float value = dl16_to_float(some_code(seed));
    const uint64_t random = next_random(seed);
    if (narrow) return value;
    switch (random & 3) {
    case 0: return (float)(int)(random >> 44) * 0x1.1p-3f;
    case 1: return value * (1.0f + 0x1p-10f);
    case 2: return value * 0x1p-12f;
    default: return value * (1.0f + (float)(random >> 40) * 0x1p-24f);
    }
}

// A number, and one next to a whole multiple of it.
static void make_near(float *x, float *y, uint64_t random)
{
    const float whole = (float)(random % 5) * *y;
    *x = random & 8 ? nextafterf(whole, random & 16 ? 0.0f : HUGE_VALF) : whole;
}

static void check(opfunc op, const float *x, const float *y)
{
    uint16_t codes[COUNT];
    narrow_formula(op, codes, x, y, COUNT);
    for (size_t n = 0; n < COUNT; n++) {
        const double inputs[] = {(double)x[n], (double)y[n]};
        uint16_t wanted;
        element_store(&wanted, DL16, opfunc_apply(op, inputs, 2, NULL));
        if (codes[n] != wanted)
            fail_msg("%s(%a, %a) is %04x, wanted %04x", opfunc_describe(op)->name, (double)x[n],
                     (double)y[n], codes[n], wanted);
    }
}

static void narrow_formula__codes_are_those_of_fp64(void **state)
{
    (void)state;
    uint64_t seed = 11;
    uint32_t functions = 0;
    for (opfunc op = 0; op < OPFUNC_COUNT; op++) {
        if (!narrow_has_formula(op)) continue;
        functions++;
        for (uint32_t round = 0; round < test_rounds(8000); round++) {
            float in[2][COUNT];
            for (size_t n = 0; n < COUNT; n++)
                for (size_t i = 0; i < 2; i++) in[i][n] = some_value(&seed, round % 8 > 0);
            for (size_t n = 0; round % 16 == 0 && n < COUNT; n++)
                make_near(&in[0][n], &in[1][n], next_random(&seed));
            if (round % 4 == 0)
                for (size_t n = 0; n < COUNT; n++) in[0][n] = fabsf(in[0][n]);
            check(op, in[0], in[1]);
        }
    }
    if (simd_in_use() == &simd_avx512) assert_true(functions > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_formula__codes_are_those_of_fp64),
    };
    return cmocka_run_group_tests_name("narrow_formula", tests, NULL, NULL);
}
