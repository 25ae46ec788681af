// SPDX-License-Identifier: Apache-2.0
//
// Lanes against the scalar definitions of tensor/opfunc.h, bit for bit.
#include "program.h"

#include <math.h>

#include "card/simd/lanes.h"
#include "tensor/numeric.h"

static uint16_t defined_dl16(opfunc op, const double *in, uint32_t count, const float *constant)
{
    uint16_t code;
    element_store(&code, DL16, opfunc_apply(op, in, count, constant));
    return code;
}

// All 65,536 codes on the left, a spread of codes on the right.
static void lanes__dl16_arithmetic_rounds_once(void **state)
{
    (void)state;
    static const opfunc ops[] = {OPFUNC_ADD, OPFUNC_SUB, OPFUNC_MUL, OPFUNC_REALDIV};
    uint64_t seed = 88172645463325252ULL;
    for (uint32_t round = 0; round < 40; round++) {
        uint16_t right = (uint16_t)next_random(&seed);
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            for (uint32_t first = 0; first < 65536; first += LANES_CHUNK) {
                uint16_t left[LANES_CHUNK], got[LANES_CHUNK];
                float a[LANES_CHUNK], b[LANES_CHUNK], out[LANES_CHUNK], none[2] = {0};
                for (uint32_t n = 0; n < LANES_CHUNK; n++) left[n] = (uint16_t)(first + n);
                lanes_load_f32(a, (uint8_t *)left, 2, DL16, LANES_CHUNK);
                lanes_load_f32(b, (uint8_t *)&right, 0, DL16, LANES_CHUNK);
                lanes_f32_function(ops[o])(out, (const float *[]){a, b, a, a, a}, none,
                                           LANES_CHUNK);
                lanes_store_f32((uint8_t *)got, 2, DL16, out, LANES_CHUNK);
                for (uint32_t n = 0; n < LANES_CHUNK; n++) {
                    double in[2] = {(double)dl16_to_float(left[n]), (double)dl16_to_float(right)};
                    assert_int_equal(got[n], defined_dl16(ops[o], in, 2, NULL));
                }
            }
        }
    }
}

// Functions of one element that claim to need no more than fp32, of every code.
static void lanes__fp32_rounds_every_code_as_fp64(void **state)
{
    (void)state;
    const spyre_format format = DL16;
    const float constants[OPFUNC_MAX_PARAMETERS] = {-3.0f, 5.5f};
    uint32_t functions = 0;
    for (opfunc op = 0; op < OPFUNC_COUNT; op++) {
        bool one = opfunc_describe(op)->least_inputs == 1 && opfunc_has_formula(op);
        if (!one || !lanes_f32_suffices(op, DL16, &format, 1)) continue;
        functions++;
        for (uint32_t first = 0; first < 65536; first += LANES_CHUNK) {
            uint16_t codes[LANES_CHUNK], got[LANES_CHUNK];
            float a[LANES_CHUNK], out[LANES_CHUNK];
            for (uint32_t n = 0; n < LANES_CHUNK; n++) codes[n] = (uint16_t)(first + n);
            lanes_load_f32(a, (uint8_t *)codes, 2, DL16, LANES_CHUNK);
            lanes_f32_function(op)(out, (const float *[]){a, a, a, a, a}, constants, LANES_CHUNK);
            lanes_store_f32((uint8_t *)got, 2, DL16, out, LANES_CHUNK);
            for (uint32_t n = 0; n < LANES_CHUNK; n++) {
                double in = (double)dl16_to_float(codes[n]);
                if (got[n] != defined_dl16(op, &in, 1, constants))
                    fail_msg("%s of %04x is not %04x", opfunc_describe(op)->name, codes[n], got[n]);
            }
        }
    }
    assert_true(functions >= 10);
}

static float random_float(uint64_t *seed)
{
    static const float special[] = {0.0f,  -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY,
                                    NAN, 1e-40f, -1e-45f, 3.4e38f};
    uint32_t choice = next_random(seed);
    if (choice % 8 == 0) return special[choice / 8 % (sizeof special / sizeof *special)];
    float value = float_from_bits(next_random(seed) & 0xBFFFFFFFu);
    if (choice % 8 == 1 || isnan(value)) value = (float)(int)(next_random(seed) % 33) - 16.0f;
    return value;
}

// fp32 results of the functions that claim to need no more than fp32.
static void lanes__fp32_rounds_as_through_fp64(void **state)
{
    (void)state;
    uint64_t seed = 1234567890123ULL;
    for (int op = 0; op < OPFUNC_COUNT; op++) {
        spyre_format formats[3] = {FP32, FP32, FP32};
        uint32_t inputs = opfunc_describe((opfunc)op)->least_inputs;
        opfunc_kind kind = opfunc_describe((opfunc)op)->kind;
        if (kind == OPFUNC_KIND_REDUCTION || kind == OPFUNC_KIND_MATMUL || inputs > 3) continue;
        if (!lanes_f32_suffices((opfunc)op, FP32, formats, inputs)) continue;
        for (int round = 0; round < 200; round++) {
            float in[3][LANES_CHUNK], out[LANES_CHUNK];
            float constant[OPFUNC_MAX_PARAMETERS] = {-3.0f, 5.5f};
            for (uint32_t n = 0; n < 3 * LANES_CHUNK; n++)
                in[n / LANES_CHUNK][n % LANES_CHUNK] = random_float(&seed);
            float ones[LANES_CHUNK], zeros[LANES_CHUNK] = {0};
            for (uint32_t n = 0; n < LANES_CHUNK; n++) ones[n] = 1.0f;
            const float *lanes[5] = {in[0], in[1], in[2], ones, zeros};
            lanes_f32_function((opfunc)op)(out, lanes, constant, LANES_CHUNK);
            for (uint32_t n = 0; n < LANES_CHUNK; n++) {
                double value[3] = {(double)in[0][n], (double)in[1][n], (double)in[2][n]};
                float wanted = (float)opfunc_apply((opfunc)op, value, inputs, constant);
                if (float_bits(out[n]) != float_bits(wanted))
                    fail_msg("%s(%a, %a) = %a, defined as %a", opfunc_describe((opfunc)op)->name,
                             value[0], value[1], (double)out[n], (double)wanted);
            }
        }
    }
}

// Stores of fp64: values around every tie, every code, both signs.
static void lanes__fp64_stores_as_defined(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (uint32_t first = 0; first < 65536; first += LANES_CHUNK / 8) {
        double values[LANES_CHUNK];
        for (uint32_t n = 0; n < LANES_CHUNK; n++) {
            double code = (double)dl16_to_float((uint16_t)(first + n / 8));
            double next = (double)dl16_to_float((uint16_t)(first + n / 8 + 1));
            double tie = isfinite(next) ? (code + next) / 2 : code * (1.0 + 1.0 / 1023);
            double near[8] = {code, tie, nextafter(tie, 0.0), nextafter(tie, 1e300), -tie, 1e300,
                              NAN, ldexp((double)next_random(&seed), -50)};
            values[n] = near[n % 8];
        }
        spyre_format formats[2] = {DL16, FP32};
        for (int f = 0; f < 2; f++) {
            uint32_t bytes = spyre_format_bytes(formats[f]);
            uint8_t got[LANES_CHUNK * 4], wanted[LANES_CHUNK * 4];
            lanes_store_f64(got, bytes, formats[f], values, LANES_CHUNK);
            for (uint32_t n = 0; n < LANES_CHUNK; n++)
                element_store(wanted + n * bytes, formats[f], values[n]);
            assert_memory_equal(got, wanted, LANES_CHUNK * bytes);
        }
    }
}

static void lanes__combine_as_defined(void **state)
{
    (void)state;
    static const opfunc ops[] = {OPFUNC_SUM, OPFUNC_MAX, OPFUNC_MIN};
    uint64_t seed = 5;
    for (int round = 0; round < 300; round++) {
        opfunc op = ops[round % 3];
        float sums[LANES_CHUNK], values[LANES_CHUNK], wanted[LANES_CHUNK];
        for (uint32_t n = 0; n < LANES_CHUNK; n++) {
            sums[n] = random_float(&seed);
            values[n] = random_float(&seed);
            wanted[n] = opfunc_combine(op, sums[n], values[n]);
        }
        lanes_combine(op, sums, values, LANES_CHUNK);
        assert_memory_equal(sums, wanted, sizeof sums);
    }
}

static void lanes__fp32_is_refused_where_it_rounds_twice(void **state)
{
    (void)state;
    spyre_format mixed[2] = {DL16, FP32}, narrow[2] = {DL16, DL16};
    spyre_format integers[2] = {SPYRE_FORMAT_IEEE_INT32, SPYRE_FORMAT_IEEE_INT32};
    assert_false(lanes_f32_suffices(OPFUNC_ADD, DL16, mixed, 2));
    assert_true(lanes_f32_suffices(OPFUNC_ADD, DL16, narrow, 2));
    assert_true(lanes_f32_suffices(OPFUNC_MAXIMUM, DL16, mixed, 2));
    assert_false(lanes_f32_suffices(OPFUNC_ADD, FP32, integers, 2));
    assert_false(lanes_f32_suffices(OPFUNC_EXP, FP32, mixed, 1));
}

// More than a chunk, side by side or apart.
static void lanes__any_count(void **state)
{
    (void)state;
    enum { COUNT = 3 * LANES_CHUNK + 7, STRIDE = 12 };
    static const spyre_format formats[] = {SPYRE_FORMAT_SEN169_FP16, SPYRE_FORMAT_IEEE_FP32,
                                           SPYRE_FORMAT_IEEE_FP16, SPYRE_FORMAT_SENINT8};
    static uint8_t from[COUNT * STRIDE], to[COUNT * STRIDE];
    static float values[COUNT];
    static double wide[COUNT];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const spyre_format format = formats[f];
        const int64_t element = spyre_format_bytes(format);
        for (int64_t stride = element; stride <= STRIDE; stride += STRIDE - element) {
            for (int64_t n = 0; n < COUNT; n++)
                element_store(from + n * stride, format, (double)(n % 101) - 50);
            memset(to, 0x55, sizeof to);
            lanes_load_f32(values, from, stride, format, COUNT);
            lanes_load_f64(wide, from, stride, format, COUNT);
            lanes_store_f32(to, stride, format, values, COUNT);
            for (int64_t n = 0; n < COUNT; n++) {
                assert_true(values[n] == (float)(n % 101) - 50);
                assert_true(wide[n] == (double)values[n]);
                assert_memory_equal(to + n * stride, from + n * stride, (size_t)element);
                if (n + 1 < COUNT && stride > element)
                    assert_int_equal(to[n * stride + element], 0x55);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes__dl16_arithmetic_rounds_once),
        cmocka_unit_test(lanes__fp32_rounds_every_code_as_fp64),
        cmocka_unit_test(lanes__fp32_rounds_as_through_fp64),
        cmocka_unit_test(lanes__fp64_stores_as_defined),
        cmocka_unit_test(lanes__combine_as_defined),
        cmocka_unit_test(lanes__fp32_is_refused_where_it_rounds_twice),
        cmocka_unit_test(lanes__any_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
