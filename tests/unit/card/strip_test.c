// SPDX-License-Identifier: Apache-2.0
//
// Strips against the scalar definitions, in the shapes that have loops of their own, for every
// variant that this host can run.
#include <stdlib.h>

#include "unit/check.h"

#include "card/lanes.h"
#include "card/strip.h"
#include "tensor/convert_kernels.h"

#define DL16 SPYRE_FORMAT_SEN169_FP16
enum { ROWS = 24, COUNT = 64, SIGNIFICANDS = 512 };

static const spyre_format all_dl16[OPFUNC_MAX_INPUTS] = {DL16, DL16, DL16, DL16, DL16};

typedef struct {
    const strip_table *table;
    const convert_kernels *host;
} variant;

static const variant variants[] = {
    {&strip_portable, &convert_portable},
#if defined(__x86_64__)
    {&strip_avx2, &convert_avx2},
    {&strip_avx512, &convert_avx512},
#endif
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static uint16_t expected_code(opfunc op, const double *inputs, uint32_t count)
{
    const float constants[OPFUNC_MAX_PARAMETERS] = {-2.5f, 4.0f};
    uint16_t code;
    element_store(&code, DL16, opfunc_apply(op, inputs, count, constants));
    return code;
}

// Codes of every kind: any bits, zeros, infinities, numbers near one.
static uint16_t random_code(uint64_t *seed)
{
    static const uint16_t special[] = {0x0000, 0x8000, 0x7FFF, 0xFFFF, 0x7FFE, 0x0001};
    uint32_t bits = (uint32_t)(check_random(seed) >> 32);
    if (bits % 8 == 0) return special[(bits >> 3) % 6];
    if (bits % 8 < 4) return (uint16_t)(0x3C00 + (bits >> 8) % 1024);
    return (uint16_t)(bits >> 8);
}

// dense: bit o says that input o has one element a lane, otherwise one a row; weights, bit o: the
// same for all rows.
static void check_shape(strip_function *function, opfunc op, uint32_t inputs, uint32_t dense,
                        uint32_t weights, uint64_t *seed)
{
    const float constants[OPFUNC_MAX_PARAMETERS] = {-2.5f, 4.0f};
    static uint16_t codes[OPFUNC_MAX_INPUTS][ROWS * COUNT], result[ROWS * COUNT];
    strip s = {.rows = ROWS, .count = COUNT, .inputs = inputs, .constant = constants};
    s.operand[0] = (strip_operand){.at = (uint8_t *)result, .row_stride = COUNT * 2};
    for (uint32_t o = 0; o < inputs; o++) {
        bool repeats = !(dense >> o & 1u), weight = weights >> o & 1u;
        for (uint32_t n = 0; n < ROWS * COUNT; n++) codes[o][n] = random_code(seed);
        s.operand[o + 1] = (strip_operand){.at = (uint8_t *)codes[o],
                                           .row_stride = weight ? 0 : repeats ? 2 : COUNT * 2,
                                           .repeats = repeats};
    }
    function(&s);
    for (uint32_t n = 0; n < ROWS * COUNT; n++) {
        double values[OPFUNC_MAX_INPUTS];
        for (uint32_t o = 0; o < inputs; o++) {
            uint32_t row = weights >> o & 1u ? 0 : n / COUNT;
            bool repeats = !(dense >> o & 1u);
            values[o] = element_load(&codes[o][repeats ? row : row * COUNT + n % COUNT], DL16);
        }
        assert_int_equal(result[n], expected_code(op, values, inputs));
    }
}

static strip_function *function_of(const strip_table *table, opfunc op, uint32_t inputs)
{
    if (op == OPFUNC_REALDIV) return table->quotient;
    return lanes_f32_suffices(op, DL16, all_dl16, inputs) ? table->f32[op] : table->f64[op];
}

static void strip__shapes(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (uint32_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(variants[v].host)) continue;
        for (int op = 0; op < OPFUNC_COUNT; op++) {
            const opfunc_info *info = opfunc_describe((opfunc)op);
            for (uint32_t inputs = info->least_inputs; inputs <= info->most_inputs; inputs++) {
                strip_function *function = function_of(variants[v].table, (opfunc)op, inputs);
                if (!function || op == OPFUNC_LAYERNORMSCALE) continue;
                for (uint32_t dense = 0; dense < 1u << inputs; dense++)
                    check_shape(function, (opfunc)op, inputs, dense, 0, &seed);
                if (op == OPFUNC_LAYERNORMNORM && inputs == 5)
                    check_shape(function, (opfunc)op, inputs, 0x19, 0x18, &seed);
            }
        }
    }
}

// All quotients of two significands, one divisor a row: the multiplication that takes the place of
// the division rounds as the division would.
static void strip__quotients(void **state)
{
    (void)state;
    static uint16_t dividends[SIGNIFICANDS], quotients[VARIANTS][SIGNIFICANDS];
    for (uint16_t n = 0; n < SIGNIFICANDS; n++) dividends[n] = (uint16_t)(0x3E00 + n);
    for (uint16_t divisor = 0x3E00; divisor < 0x3E00 + SIGNIFICANDS; divisor++) {
        strip s = {.rows = 1, .count = SIGNIFICANDS, .inputs = 2, .constant = (float[2]){0}};
        s.operand[1].at = (uint8_t *)dividends;
        s.operand[2] = (strip_operand){.at = (uint8_t *)&divisor, .repeats = true};
        for (uint32_t v = 0; v < VARIANTS; v++) {
            if (!convert_can_run(variants[v].host)) continue;
            s.operand[0].at = (uint8_t *)quotients[v];
            variants[v].table->quotient(&s);
        }
        for (uint32_t n = 0; n < SIGNIFICANDS; n++) {
            double values[2] = {element_load(&dividends[n], DL16), element_load(&divisor, DL16)};
            uint16_t want = expected_code(OPFUNC_REALDIV, values, 2);
            for (uint32_t v = 0; v < VARIANTS; v++)
                if (convert_can_run(variants[v].host)) assert_int_equal(quotients[v][n], want);
        }
    }
}

static void strip__lookup(void **state)
{
    (void)state;
    static uint16_t table[1 << 16], codes[1 << 16], found[1 << 16];
    uint64_t seed = 13;
    for (uint32_t n = 0; n < 1 << 16; n++) {
        table[n] = (uint16_t)(check_random(&seed) >> 40);
        codes[n] = (uint16_t)(n * 40503u);                  // every code once
    }
    for (uint32_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(variants[v].host)) continue;
        // A length that ends inside a step.
        variants[v].table->lookup((uint8_t *)found, (uint8_t *)codes, table, (1 << 16) - 5);
        for (uint32_t n = 0; n < (1 << 16) - 5; n++) assert_int_equal(found[n], table[codes[n]]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strip__shapes),
        cmocka_unit_test(strip__quotients),
        cmocka_unit_test(strip__lookup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
