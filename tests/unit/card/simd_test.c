// SPDX-License-Identifier: Apache-2.0
//
// Strips against the scalar definitions, in the shapes that have loops of their own, for every
// variant that this host can run.
#include <math.h>
#include <stdlib.h>

#include "unit/card/variants.h"
#include "unit/check.h"

#include "card/simd/lanes.h"
#include "support/rounds.h"

#define DL16 SPYRE_FORMAT_SEN169_FP16
enum { PLANES = 2, ROWS = 136, COUNT = 64, SIGNIFICANDS = 512 };

static double expected_value(opfunc op, const double *inputs, uint32_t count,
                             const float *constants)
{
    if (op == OPFUNC_LAYERNORMSCALE)
        return opfunc_layernormscale(inputs[0], inputs[1], constants[0]);
    return opfunc_apply(op, inputs, count, constants);
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

// What a shape is made of. Bits of inputs: dense, otherwise one element a row; weights, the same
// for all rows; moves, another for each plane. f32: operands that are IEEE_FP32, bit 0 the result.
typedef struct {
    uint32_t inputs, dense, weights, moves, f32;
} shape;

static void random_element(uint8_t *to, spyre_format format, uint64_t *seed)
{
    element_store(to, format, element_load((uint16_t[]){random_code(seed)}, DL16));
}

// The element of input o that lane n of a row takes.
static const uint8_t *element_of(const simd_rows *s, uint32_t o, size_t plane, size_t row, size_t n)
{
    const simd_operand *in = &s->operand[o];
    size_t bytes = in->format == SIMD_DL16 ? 2 : 4;
    return in->at + (int64_t)plane * in->plane_stride + (int64_t)row * in->row_stride +
           (in->repeats ? 0 : n * bytes);
}

static void check_result(const simd_rows *s, opfunc op, size_t plane, size_t row, size_t n)
{
    double values[OPFUNC_MAX_INPUTS];
    for (uint32_t o = 1; o <= s->inputs; o++) {
        bool dl16 = s->operand[o].format == SIMD_DL16;
        values[o - 1] = element_load(element_of(s, o, plane, row, n),
                                     dl16 ? DL16 : SPYRE_FORMAT_IEEE_FP32);
    }
    spyre_format format = s->operand[0].format == SIMD_DL16 ? DL16 : SPYRE_FORMAT_IEEE_FP32;
    uint32_t want = 0, got = 0;
    element_store(&want, format, expected_value(op, values, s->inputs, s->constant));
    memcpy(&got, element_of(s, 0, plane, row, n), spyre_format_bytes(format));
    assert_int_equal(got, want);
}

static void check_shape(simd_function *function, opfunc op, shape what, size_t count,
                        uint64_t *seed)
{
    const float constants[OPFUNC_MAX_PARAMETERS] = {-2.5f, 4.0f};
    static uint8_t memory[1 + OPFUNC_MAX_INPUTS][PLANES * ROWS * COUNT * 4];
    simd_rows s = {.planes = PLANES, .rows = ROWS, .count = count, .inputs = what.inputs};
    s.constant = constants;
    for (uint32_t o = 0; o <= what.inputs; o++) {
        bool f32 = what.f32 >> o & 1u, repeats = o && !(what.dense >> (o - 1) & 1u);
        bool weight = o && (what.weights >> (o - 1) & 1u);
        int64_t bytes = f32 ? 4 : 2, row = bytes * (repeats ? 1 : COUNT);
        for (uint32_t n = 0; o && n < PLANES * ROWS * COUNT; n++) {
            random_element(memory[o] + n * bytes, f32 ? SPYRE_FORMAT_IEEE_FP32 : DL16, seed);
        }
        s.operand[o] = (simd_operand){
            .at = memory[o],
            .format = f32 ? SIMD_F32 : SIMD_DL16,
            .plane_stride = o == 0 || (what.moves >> (o - 1) & 1u) ? bytes * ROWS * COUNT : 0,
            .row_stride = weight ? 0 : row,
            .repeats = repeats};
    }
    function(&s);
    for (size_t plane = 0; plane < PLANES; plane++)
        for (size_t row = 0; row < ROWS; row++)
            for (size_t n = 0; n < count; n++) check_result(&s, op, plane, row, n);
}

static simd_function *function_of(const simd_table *table, opfunc op, shape what)
{
    spyre_format formats[1 + OPFUNC_MAX_INPUTS];
    for (uint32_t o = 0; o <= what.inputs; o++)
        formats[o] = what.f32 >> o & 1u ? SPYRE_FORMAT_IEEE_FP32 : DL16;
    bool suffices = lanes_f32_suffices(op, formats[0], formats + 1, what.inputs);
    return suffices ? table->f32[op] : table->f64[op];
}

// Every choice of dense inputs; columns and planes by chance.
static void check_shapes(const simd_table *table, opfunc op, uint32_t inputs, uint64_t *seed)
{
    uint32_t all = (2u << inputs) - 1;
    for (uint32_t dense = 0; dense < 1u << inputs; dense++) {
        for (uint32_t n = 0; n < 6; n++) {
            shape what = {.inputs = inputs, .dense = dense};
            what.weights = n % 2 ? (uint32_t)check_random(seed) >> 8 : 0;
            what.moves = (uint32_t)check_random(seed) >> 8;
            what.f32 = n < 2 ? 0 : n < 4 ? all : (uint32_t)check_random(seed) >> 8 & all;
            // The last steps end inside a register.
            size_t count = n == 4 ? COUNT - 3 : COUNT;
            simd_function *function = function_of(table, op, what);
            if (function) check_shape(function, op, what, count, seed);
        }
    }
    if (inputs != 5) return;
    for (uint32_t n = 0; n < 4; n++) {
        shape weighted = {5, 0x19, 0x18, 0x1F, n % 2 ? all : 0};
        check_shape(function_of(table, op, weighted), op, weighted, COUNT, seed);
    }
}

static void simd__shapes(void **state)
{
    (void)state;
    uint64_t seed = 12;
    for (uint32_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(variants[v].host)) continue;
        for (int op = 0; op < OPFUNC_COUNT; op++) {
            const opfunc_info *info = opfunc_describe((opfunc)op);
            uint32_t least = info->least_inputs, most = info->most_inputs;
            if (op == OPFUNC_LAYERNORMSCALE) least = most = 2;
            if (info->kind == OPFUNC_KIND_PARAMETRIC) most = least; // of constants
            for (uint32_t inputs = least; inputs <= most; inputs++)
                check_shapes(variants[v].table, (opfunc)op, inputs, &seed);
        }
    }
}

// All quotients of two significands: fp32 suffices for them (lanes.h).
static void simd__quotients(void **state)
{
    (void)state;
    static uint16_t dividends[SIGNIFICANDS], quotients[VARIANTS][SIGNIFICANDS];
    for (uint16_t n = 0; n < SIGNIFICANDS; n++) dividends[n] = (uint16_t)(0x3E00 + n);
    for (uint16_t divisor = 0x3E00; divisor < 0x3E00 + SIGNIFICANDS;
         divisor += (uint16_t)test_stride()) {
        simd_rows s = {.planes = 1, .rows = 1, .count = SIGNIFICANDS, .inputs = 2};
        s.constant = (float[2]){0};
        s.operand[1].at = (uint8_t *)dividends;
        s.operand[2] = (simd_operand){.at = (uint8_t *)&divisor, .repeats = true};
        for (uint32_t v = 0; v < VARIANTS; v++) {
            if (!convert_can_run(variants[v].host)) continue;
            s.operand[0].at = (uint8_t *)quotients[v];
            variants[v].table->f32[OPFUNC_REALDIV](&s);
        }
        for (uint32_t n = 0; n < SIGNIFICANDS; n++) {
            double values[2] = {element_load(&dividends[n], DL16), element_load(&divisor, DL16)};
            uint16_t want;
            element_store(&want, DL16, opfunc_apply(OPFUNC_REALDIV, values, 2, s.constant));
            for (uint32_t v = 0; v < VARIANTS; v++)
                if (convert_can_run(variants[v].host)) assert_int_equal(quotients[v][n], want);
        }
    }
}

static void simd__lookup(void **state)
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

enum { FEW_RUNS = 3, FEW_DEPTH = FEW_RUNS * SIMD_LANES, FEW_LINE = 3 * SIMD_LANES };

// Rows by FEW_RUNS runs of k that lie behind each other in any order, lines with gaps.
typedef struct {
    size_t rows, depth, run, wanted;
    float a[FEW_RUNS][SIMD_MOST_ROWS][SIMD_LANES];
    uint16_t b[FEW_DEPTH][FEW_LINE];
    float sums[SIMD_MOST_ROWS][SIMD_LANES], want[SIMD_MOST_ROWS][SIMD_LANES];
} few_rows;

// Of exponents that have a scaled form, or zero.
static uint16_t scalable_code(uint64_t *seed)
{
    uint16_t code = (uint16_t)(check_random(seed) >> 48);
    bool scales = (code & 0x7FFF) >= 0x200 && (code & 0x7FFF) < DL16_MERGED;
    return scales ? code : code & DL16_SIGN;
}

static const uint8_t *line_of(const few_rows *x, size_t k)
{
    size_t runs = FEW_DEPTH / x->run;
    return (const uint8_t *)x->b[(runs - 1 - k / x->run) * x->run + k % x->run];
}

static void make_few_rows(few_rows *x, uint64_t *seed)
{
    for (size_t k = 0; k < FEW_DEPTH; k++)
        for (size_t n = 0; n < FEW_LINE; n++) x->b[k][n] = scalable_code(seed);
    for (size_t row = 0; row < x->rows; row++) {
        for (size_t k = 0; k < FEW_DEPTH; k++) {
            uint16_t code = (uint16_t)(check_random(seed) >> 48) & (DL16_SIGN | 0x7DFF);
            x->a[k / SIMD_LANES][row][k % SIMD_LANES] = dl16_to_float(code) * SIMD_SCALE;
        }
        for (size_t lane = 0; lane < SIMD_LANES; lane++) {
            float sum = x->sums[row][lane] = (float)(lane % 53);
            for (size_t k = 0; k < x->depth; k++) {
                uint16_t code;
                memcpy(&code, line_of(x, k) + 2 * lane, sizeof code);
                sum = fmaf(x->a[k / SIMD_LANES][row][k % SIMD_LANES] / SIMD_SCALE,
                           dl16_to_float(code), sum);
            }
            x->want[row][lane] = sum;
        }
    }
}

static bool multiply_few(const simd_table *table, few_rows *x)
{
    const uint8_t *b[FEW_DEPTH];
    for (size_t k = 0; k < FEW_DEPTH; k += x->run) b[k / x->run] = line_of(x, k);
    return table->multiply(&(simd_product){.sums = x->sums[0], .a = x->a[0][0],
                                           .a_next = SIMD_MOST_ROWS * SIMD_LANES, .b = b,
                                           .line = FEW_LINE * 2, .rows = x->rows,
                                           .depth = x->depth, .run = x->run,
                                           .wanted = x->wanted});
}

// Those that are wanted.
static void expect_sums(const few_rows *x)
{
    for (size_t row = 0; row < x->rows; row++)
        assert_memory_equal(x->sums[row], x->want[row], x->wanted * sizeof x->sums[row][0]);
}

// Every number of rows that a variant takes, each sum in the order of k.
static void simd__products_of_few_rows(void **state)
{
    (void)state;
    static few_rows x;
    const size_t runs[] = {16, 32, SIMD_LANES, FEW_DEPTH};
    uint64_t seed = 14;
    for (uint32_t v = 0; v < VARIANTS; v++) {
        const simd_table *table = variants[v].table;
        if (!convert_can_run(variants[v].host)) continue;
        assert_in_range(table->few_rows, 1, SIMD_MOST_ROWS);
        for (x.rows = 1; x.rows <= table->few_rows; x.rows++) {
            for (size_t n = 0; n < sizeof runs / sizeof *runs; n++) {
                x.run = runs[n];
                x.depth = 1 + check_random(&seed) % FEW_DEPTH;
                x.wanted = n % 2 ? SIMD_LANES : 1 + check_random(&seed) % SIMD_LANES;
                make_few_rows(&x, &seed);
                assert_true(multiply_few(table, &x));
                expect_sums(&x);
            }
        }
    }
}

// A code without a scaled form is found wherever it lies.
static void simd__codes_that_do_not_scale(void **state)
{
    (void)state;
    static few_rows x = {.depth = SIMD_LANES + 5, .run = SIMD_LANES, .wanted = SIMD_LANES};
    const uint16_t codes[] = {0x0001, 0x01FF, 0x8001, 0x81FF, DL16_MERGED, 0xFFFF};
    uint64_t seed = 15;
    for (uint32_t v = 0; v < VARIANTS; v++) {
        const simd_table *table = variants[v].table;
        if (!convert_can_run(variants[v].host)) continue;
        x.rows = table->few_rows;
        make_few_rows(&x, &seed);
        for (size_t n = 0; n < 4 * SIMD_LANES; n++) {
            size_t k = check_random(&seed) % x.depth, lane = n % SIMD_LANES;
            uint16_t *at = (uint16_t *)(uintptr_t)(line_of(&x, k) + 2 * lane), before = *at;
            *at = codes[n % (sizeof codes / sizeof *codes)];
            assert_false(multiply_few(table, &x));
            *at = before;
        }
        assert_true(multiply_few(table, &x));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simd__shapes),
        cmocka_unit_test(simd__quotients),
        cmocka_unit_test(simd__lookup),
        cmocka_unit_test(simd__products_of_few_rows),
        cmocka_unit_test(simd__codes_that_do_not_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
