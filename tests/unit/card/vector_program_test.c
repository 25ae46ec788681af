// SPDX-License-Identifier: Apache-2.0
//
// Vector programs against the scalar definitions: op by op, for every variant that this host can
// run, and as machine code.
#include "unit/check.h"

#include "card/codegen/vector_code.h"
#include "card/simd/lanes.h"
#include "card/simd/simd.h"
#include "tensor/convert_kernels.h"
#include "tensor/numeric.h"

#define DL16 SPYRE_FORMAT_SEN169_FP16
#define FP32 SPYRE_FORMAT_IEEE_FP32
enum { LANES = 64, CODES = 1 << 16, ROWS = 35, STICKS = 3, ELEMENTS = ROWS * STICKS * LANES };

typedef struct {
    const simd_table *table;
    const convert_kernels *host;
    bool as_code;
} way;

static const way ways[] = {
    {&simd_portable, &convert_portable, false},
#if defined(__x86_64__)
    {&simd_avx2, &convert_avx2, false},
    {&simd_avx512, &convert_avx512, false},
    {&simd_avx512, &convert_avx512, true},
#endif
};
enum { WAYS = sizeof ways / sizeof *ways };

static uint16_t first[ELEMENTS], second[ELEMENTS], result[ELEMENTS];
static float kept[ELEMENTS], sums[ROWS][LANES], rows[ROWS];

static void fill_codes(uint64_t *seed)
{
    for (size_t n = 0; n < ELEMENTS; n++) {
        uint64_t bits = check_random(seed) >> 24;
        static const uint16_t special[] = {0, 0x8000, 0x7FFF, 0xFFFF, 0x7FFE, 1, 0x8001};
        first[n] = bits % 8 ? (uint16_t)(bits >> 8) : special[(bits >> 3) % 7];
        second[n] =
            bits % 16 < 8 ? (uint16_t)(0x3C00 + (bits >> 24) % 1024) : (uint16_t)(bits >> 9);
    }
}

static const int64_t only_stick = 0;

// Rows, or sticks, so many bytes apart.
static const int64_t *apart(int64_t bytes)
{
    static int64_t lists[4][CODES / LANES];
    int64_t *list = lists[0];
    while (list[1] != 0 && list[1] != bytes) list += CODES / LANES;
    for (int64_t n = 0; n < CODES / LANES; n++) list[n] = n * bytes;
    return list;
}

static vector_step over(vector_op op, uint16_t *elements)
{
    return (vector_step){.op = op, .at = (uint8_t *)elements, .row_at = apart(LANES * 2),
                       .stick_at = apart(ROWS * LANES * 2)};
}

static void run(const way *how, const vector_program *w)
{
    vector_loop *loop = how->as_code ? vector_code_of(w) : NULL;
    if (how->as_code) assert_non_null(loop);
    how->table->run_program(w, loop);
}

static void take(const way *how, const vector_step *steps, uint32_t count)
{
    vector_program w = {.steps = steps, .count = count, .rows = ROWS, .sticks = STICKS};
    run(how, &w);
}

static uint16_t expected(opfunc op, uint16_t a, uint16_t b, uint32_t inputs, const float *constants)
{
    double in[] = {element_load(&a, DL16), element_load(&b, DL16)};
    uint16_t code;
    element_store(&code, DL16, opfunc_apply(op, in, inputs, constants));
    return code;
}

static void vector_program__exp_has_the_bits_of_its_table_for_all_codes(void **state)
{
    (void)state;
    static uint16_t codes[CODES], found[CODES];
    const uint16_t *table = opfunc_dl16_table(OPFUNC_EXP);
    for (uint32_t n = 0; n < CODES; n++) codes[n] = (uint16_t)n;
    uint32_t tested = 0;
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host) || !ways[v].table->has_exp) continue;
        vector_step steps[] = {
            {.op = VECTOR_LOAD_X, .at = (uint8_t *)codes, .row_at = apart(LANES * 2),
             .stick_at = &only_stick},
            {.op = VECTOR_EXP},
            {.op = VECTOR_STORE, .at = (uint8_t *)found, .row_at = apart(LANES * 2),
             .stick_at = &only_stick},
        };
        vector_program w = {.steps = steps, .count = 3, .rows = CODES / LANES, .sticks = 1};
        run(&ways[v], &w);
        for (uint32_t n = 0; n < CODES; n++)
            if (found[n] != table[n]) fail_msg("variant %d code %04x: %04x", v, n, found[n]);
        tested++;
    }
    assert_true(tested > 0 || !convert_can_run(ways[WAYS - 1].host));
}

// What VECTOR_SIGNIFICAND leaves beyond the exponents does not matter to exp.
static void vector_program__exp_takes_differences_that_are_rounded_to_the_significand(void **state)
{
    (void)state;
    uint64_t seed = 3;
    const float none[2] = {0};
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host) || !ways[v].table->has_exp) continue;
        for (int round = 0; round < 200; round++) {
            fill_codes(&seed);
            vector_step steps[] = {over(VECTOR_LOAD_X, first), over(VECTOR_LOAD_Y, second),
                                 {.op = VECTOR_APPLY + OPFUNC_SUB, .constant = none,
                                  .rounding = VECTOR_SIGNIFICAND},
                                 {.op = VECTOR_EXP}, over(VECTOR_STORE, result)};
            take(&ways[v], steps, 5);
            for (size_t n = 0; n < ELEMENTS; n++) {
                uint16_t code = expected(OPFUNC_SUB, first[n], second[n], 2, NULL);
                assert_int_equal(result[n], expected(OPFUNC_EXP, code, 0, 1, NULL));
            }
        }
    }
}

// Through x and y, rounded in registers, kept and stored, or looked up.
static void vector_program__opfuncs_are_their_definitions(void **state)
{
    (void)state;
    const float constants[2] = {-0.75f, 2.5f};
    uint64_t seed = 1;
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        for (opfunc op = 0; op < OPFUNC_COUNT; op++) {
            uint32_t inputs = opfunc_describe(op)->least_inputs;
            const spyre_format formats[] = {DL16, DL16};
            if (inputs > 2 || !vector_applies(op, inputs) ||
                !lanes_f32_suffices(op, DL16, formats, inputs))
                continue;
            fill_codes(&seed);
            vector_step steps[] = {over(VECTOR_LOAD_X, first), over(VECTOR_LOAD_Y, second),
                                 {.op = VECTOR_APPLY + op, .constant = constants,
                                  .rounding = VECTOR_ROUND},
                                 {.op = VECTOR_KEEP, .values = kept},
                                 over(VECTOR_LOAD_X, second),
                                 {.op = VECTOR_KEPT_X, .values = kept},
                                 over(VECTOR_STORE, result)};
            take(&ways[v], steps, 7);
            for (size_t n = 0; n < ELEMENTS; n++)
                if (result[n] != expected(op, first[n], second[n], inputs, constants))
                    fail_msg("variant %d %s of %04x and %04x is not %04x", v,
                             opfunc_describe(op)->name, first[n], second[n], result[n]);
        }
    }
}

// In fp32, from and to runs of 32 elements that lie apart, with infinities and NaN of both kinds;
// a third input is kept.
static void vector_program__opfuncs_of_fp32_are_their_definitions(void **state)
{
    (void)state;
    static float in[3][ELEMENTS], out[ELEMENTS];
    static const uint32_t special[] = {0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                       0xFFC01234, 0x7F800001, 1, 0x807FFFFF};
    const spyre_format formats[] = {FP32, FP32, FP32};
    const float constants[2] = {-0.75f, 2.5f};
    uint64_t seed = 21;
    vector_step wide = {.row_at = apart(128), .upper = ROWS * 128,
                        .stick_at = apart(2 * ROWS * 128)};
    for (size_t n = 0; n < 3 * ELEMENTS; n++) {
        uint32_t bits = (uint32_t)(check_random(&seed) >> 24);
        if (n % 5 == 0) bits = special[bits % 9];
        else bits = (bits & 0x80FFFFFF) | 0x3F000000;
        memcpy(&in[n / ELEMENTS][n % ELEMENTS], &bits, sizeof bits);
    }
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        for (opfunc op = 0; op < OPFUNC_COUNT; op++) {
            uint32_t inputs = opfunc_describe(op)->least_inputs, first_of = inputs == 3;
            if (!vector_applies(op, inputs) || !lanes_f32_suffices(op, FP32, formats, inputs))
                continue;
            vector_step steps[6] = {wide, {.op = VECTOR_KEEP, .values = kept}, wide, wide,
                                    {.op = VECTOR_APPLY_F32 + op, .constant = constants,
                                     .values = kept}, wide};
            const vector_op ops[] = {VECTOR_WIDE_X, VECTOR_KEEP, VECTOR_WIDE_X, VECTOR_WIDE_Y};
            for (uint32_t n = 0; n < 4; n++) steps[n].op = ops[n];
            steps[0].at = (uint8_t *)in[0];
            steps[2].at = (uint8_t *)in[first_of];
            steps[3].at = (uint8_t *)in[first_of + 1];
            steps[5].op = VECTOR_STORE_WIDE;
            steps[5].at = (uint8_t *)out;
            take(&ways[v], steps, 6);
            for (size_t n = 0; n < ELEMENTS; n++) {
                double x[3];
                float wanted;
                for (uint32_t k = 0; k < 3; k++) x[k] = element_load(&in[k][n], FP32);
                element_store(&wanted, FP32, opfunc_apply(op, x, inputs, constants));
                if (memcmp(&wanted, &out[n], sizeof wanted) != 0)
                    fail_msg("variant %d %s, element %zu: %a is not %a", v,
                             opfunc_describe(op)->name, n, (double)out[n], (double)wanted);
            }
        }
    }
}

// One lane at a time of zero, infinity, NaN and what lies next to them, among ordinary values: as
// fp32, which a sum that begins with -0 shows.
static void vector_program__every_lane_is_rounded(void **state)
{
    (void)state;
    static const uint16_t rare[][2] = {{0, 0x3E00}, {0x8000, 0x3E00}, {1, 0x3E00}, {1, 0x3DFF},
                                       {0x8001, 0x3C00}, {0x7FFE, 0x3E00}, {0x7FFE, 0x3E01},
                                       {0xFFFE, 0x4200}, {0xFFFF, 0x3E00}, {0x7FFF, 0},
                                       {0x7FFF, 0x8000}, {0x5E00, 0x5DFF}, {0x1F00, 0x1F00}};
    const float none[2] = {0};
    uint64_t seed = 12;
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        for (size_t n = 0; n < ROWS * LANES; n++) {
            first[n] = (uint16_t)(0x3000 + check_random(&seed) % 0x1800);
            second[n] = (uint16_t)((n % 2 ? 0x8000 : 0) | (0x3A00 + check_random(&seed) % 0x800));
        }
        for (size_t lane = 0; lane < ROWS * LANES; lane++) {
            const uint16_t was[] = {first[lane], second[lane]}, *put = rare[lane % 13];
            first[lane] = put[0];
            second[lane] = put[1];
            vector_step steps[] = {over(VECTOR_LOAD_X, first), over(VECTOR_LOAD_Y, second),
                                 {.op = VECTOR_APPLY + OPFUNC_MUL, .constant = none,
                                  .rounding = VECTOR_ROUND},
                                 {.op = VECTOR_SUM, .values = sums[0], .begins = true,
                                  .begin = -0.0f}};
            vector_program w = {.steps = steps, .count = 4, .rows = ROWS, .sticks = 1};
            run(&ways[v], &w);
            for (size_t n = 0; n < ROWS * LANES; n++) {
                float value = dl16_to_float(expected(OPFUNC_MUL, first[n], second[n], 2, none));
                assert_memory_equal(&sums[n / LANES][n % LANES], &value, sizeof value);
            }
            first[lane] = was[0];
            second[lane] = was[1];
        }
    }
}

static void vector_program__values_are_looked_up(void **state)
{
    (void)state;
    uint64_t seed = 9;
    const uint16_t *table = opfunc_dl16_table(OPFUNC_GELUFWD);
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        fill_codes(&seed);
        vector_step steps[] = {over(VECTOR_LOAD_X, first), {.op = VECTOR_LOOK_UP, .table = table},
                             over(VECTOR_STORE, result)};
        take(&ways[v], steps, 3);
        for (size_t n = 0; n < ELEMENTS; n++) assert_int_equal(result[n], table[first[n]]);
        memset(result, 0, sizeof result);
        steps[1] = over(VECTOR_STORE_LOOK_UP, result);
        steps[1].table = table;
        take(&ways[v], steps, 2);
        for (size_t n = 0; n < ELEMENTS; n++) assert_int_equal(result[n], table[first[n]]);
    }
}

static float expected_sum(vector_op op, float sum, float x)
{
    if (op == VECTOR_SUM) return sum + x;
    if (op == VECTOR_SQUARES) return sum + x * x;
    if (op == VECTOR_PRODUCT) return sum * x;
    return opfunc_combine(op == VECTOR_MAX ? OPFUNC_MAX : OPFUNC_MIN, sum, x);
}

// Wide ones take a row as twice as many sticks of half the lanes.
static float expected_row(vector_op op, size_t row, float begin)
{
    float lane[LANES];
    const bool wide = vector_sums_wide(op);
    const size_t lanes = wide ? LANES / 2 : LANES;
    if (wide) op -= VECTOR_WIDE_SUM - VECTOR_SUM;
    for (size_t n = 0; n < lanes; n++) {
        lane[n] = begin;
        for (size_t at = n; at < STICKS * LANES; at += lanes) {
            uint16_t code = second[(at / LANES * ROWS + row) * LANES + at % LANES];
            lane[n] = expected_sum(op, lane[n], dl16_to_float(code));
        }
    }
    for (size_t half = lanes / 2; half > 0; half /= 2)
        for (size_t n = 0; n < half; n++)
            lane[n] = op == VECTOR_SQUARES ? lane[n] + lane[n + half]
                                           : expected_sum(op, lane[n], lane[n + half]);
    return lane[0];
}

static void vector_program__sums_of_rows_keep_their_order(void **state)
{
    (void)state;
    uint64_t seed = 4;
    fill_codes(&seed);
    for (size_t n = 0; n < ELEMENTS; n++) second[n] = (uint16_t)(0x3000 + second[n] % 0x1400);
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        for (vector_op op = VECTOR_SUM; vector_sums(op); op++) {
            vector_step steps[] = {over(VECTOR_LOAD_X, second),
                                 {.op = op, .values = sums[0], .begins = true, .folds = true,
                                  .begin = 0.5f}};
            take(&ways[v], steps, 2);
            for (size_t row = 0; row < ROWS; row++) {
                float wanted = expected_row(op, row, 0.5f);
                assert_memory_equal(&sums[0][row], &wanted, sizeof wanted);
            }
        }
    }
}

// One element a row, a line for all rows, x itself.
static void vector_program__second_inputs(void **state)
{
    (void)state;
    uint64_t seed = 6;
    const float none[2] = {0};
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        fill_codes(&seed);
        for (size_t row = 0; row < ROWS; row++) rows[row] = (float)row - 3.0f;
        vector_step line[] = {over(VECTOR_LOAD_X, second), {.op = VECTOR_KEEP, .values = kept}};
        vector_program w = {.steps = line, .count = 2, .rows = 1, .sticks = STICKS};
        run(&ways[v], &w);
        vector_step add = {.op = VECTOR_APPLY + OPFUNC_ADD, .constant = none,
                           .rounding = VECTOR_ROUND};
        vector_step steps[] = {over(VECTOR_LOAD_X, first),
                             {.op = VECTOR_ROWS_Y, .values = rows}, add,
                             {.op = VECTOR_LINE_Y, .values = kept}, add,
                             {.op = VECTOR_X_TO_Y}, add, over(VECTOR_STORE, result)};
        take(&ways[v], steps, 8);
        for (size_t n = 0; n < ELEMENTS; n++) {
            size_t row = n / LANES % ROWS, stick = n / LANES / ROWS;
            uint16_t one = dl16_from_float(rows[row]);
            uint16_t x = expected(OPFUNC_ADD, first[n], one, 2, NULL);
            x = expected(OPFUNC_ADD, x, second[stick * ROWS * LANES + n % LANES], 2, NULL);
            assert_int_equal(result[n], expected(OPFUNC_ADD, x, x, 2, NULL));
        }
    }
}

// Elements that lie as IEEE_FP16 go to the values that a transfer would have made of them.
static void vector_program__halves_are_loaded_as_a_transfer_converts_them(void **state)
{
    (void)state;
    static uint16_t halves[CODES];
    static uint16_t codes[CODES];
    for (uint32_t n = 0; n < CODES; n++) halves[n] = (uint16_t)n;
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        vector_step steps[] = {
            {.op = VECTOR_LOAD_X, .at = (uint8_t *)halves, .row_at = apart(LANES * 2),
             .stick_at = &only_stick, .halves = true},
            {.op = VECTOR_STORE, .at = (uint8_t *)codes, .row_at = apart(LANES * 2),
             .stick_at = &only_stick},
        };
        vector_program w = {.steps = steps, .count = 2, .rows = CODES / LANES, .sticks = 1};
        run(&ways[v], &w);
        for (uint32_t n = 0; n < CODES; n++) {
            uint16_t wanted = dl16_from_host_float(fp16_to_float((uint16_t)n));
            if (codes[n] != wanted)
                fail_msg("variant %d half %04x: %04x, %04x", v, n, codes[n], wanted);
        }
    }
}

// Sums and products of codes, so that they are not rounded yet, and infinities and NaN.
static void vector_program__halves_are_stored_as_a_transfer_converts_them(void **state)
{
    (void)state;
    uint64_t seed = 11;
    const opfunc ops[] = {OPFUNC_ADD, OPFUNC_MUL, OPFUNC_SUB, OPFUNC_MAXIMUM};
    const float none[2] = {0};
    static uint16_t codes[ELEMENTS];
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        for (uint32_t n = 0; n < 32; n++) {
            fill_codes(&seed);
            vector_step steps[] = {over(VECTOR_LOAD_X, first), over(VECTOR_LOAD_Y, second),
                                   {.op = VECTOR_APPLY + (uint32_t)ops[n % 4], .constant = none},
                                   over(VECTOR_STORE, codes), over(VECTOR_STORE, result)};
            steps[4].halves = true;
            take(&ways[v], steps, 5);
            for (size_t e = 0; e < ELEMENTS; e++)
                if (result[e] != dl16_to_host_fp16(codes[e]))
                    fail_msg("variant %d %04x %04x: %04x as %04x", v, first[e], second[e], codes[e],
                             result[e]);
        }
    }
}

static void vector_program__halves_are_looked_up_and_stored(void **state)
{
    (void)state;
    uint64_t seed = 5;
    const uint16_t *table = opfunc_dl16_table(OPFUNC_EXP);
    for (int v = 0; v < WAYS; v++) {
        if (!convert_can_run(ways[v].host)) continue;
        fill_codes(&seed);
        vector_step steps[] = {over(VECTOR_LOAD_X, first), over(VECTOR_STORE_LOOK_UP, result)};
        steps[1].halves = true;
        steps[1].table = table;
        take(&ways[v], steps, 2);
        for (size_t e = 0; e < ELEMENTS; e++)
            assert_int_equal(result[e], dl16_to_host_fp16(table[first[e]]));
    }
}

static uint16_t difference_of_products(opfunc op, uint16_t a, uint16_t b, uint16_t c, uint16_t d)
{
    uint16_t x = expected(OPFUNC_MUL, a, b, 2, NULL), y = expected(OPFUNC_MUL, c, d, 2, NULL);
    return expected(op, x, y, 2, NULL);
}

// (first + second i)(first + result i): by the slots with which it is also compiled as a whole, and
// by others.
static void vector_program__rotations(void **state)
{
    (void)state;
    enum { REAL, LINE, FIRST, IMAGINARY, SINE };
    static uint16_t out[2][ELEMENTS];
    uint64_t seed = 13;
    const float none[2] = {0};
    for (size_t n = 0; n < ELEMENTS; n++)
        result[n] = (uint16_t)(0x3000 + check_random(&seed) % 0x1800);
    vector_step add = {.op = VECTOR_APPLY + OPFUNC_ADD, .constant = none};
    vector_step mul = add, sub = add;
    mul.op = VECTOR_APPLY + OPFUNC_MUL;
    mul.rounding = VECTOR_ROUND;
    sub.op = VECTOR_APPLY + OPFUNC_SUB;
#define HOLD(slot, register) {.op = VECTOR_HOLD_##register(slot)}
#define HELD(slot, register) {.op = VECTOR_HELD_##register(slot)}
    for (int v = 0; v < 2 * WAYS; v++) {
        const uint32_t last = v < WAYS ? REAL : VECTOR_SLOTS - 1;
        const way *how = &ways[v % WAYS];
        if (!convert_can_run(how->host)) continue;
        fill_codes(&seed);
        vector_step steps[] = {
            over(VECTOR_LOAD_X, first), HOLD(REAL, X), over(VECTOR_LOAD_Y, first), HOLD(LINE, Y),
            mul, HOLD(FIRST, X), over(VECTOR_LOAD_X, second), HOLD(IMAGINARY, X),
            over(VECTOR_LOAD_Y, result), HOLD(SINE, Y), mul, {.op = VECTOR_X_TO_Y}, HELD(FIRST, X),
            sub, over(VECTOR_STORE, out[0]), HELD(REAL, X), HELD(SINE, Y), mul, HOLD(last, X),
            HELD(IMAGINARY, X), HELD(LINE, Y), mul, {.op = VECTOR_X_TO_Y}, HELD(last, X), add,
            over(VECTOR_STORE, out[1])};
        take(how, steps, sizeof steps / sizeof *steps);
        for (size_t n = 0; n < ELEMENTS; n++) {
            assert_int_equal(out[0][n], difference_of_products(OPFUNC_SUB, first[n], first[n],
                                                               second[n], result[n]));
            assert_int_equal(out[1][n], difference_of_products(OPFUNC_ADD, first[n], result[n],
                                                               second[n], first[n]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_program__exp_has_the_bits_of_its_table_for_all_codes),
        cmocka_unit_test(vector_program__exp_takes_differences_that_are_rounded_to_the_significand),
        cmocka_unit_test(vector_program__opfuncs_are_their_definitions),
        cmocka_unit_test(vector_program__opfuncs_of_fp32_are_their_definitions),
        cmocka_unit_test(vector_program__every_lane_is_rounded),
        cmocka_unit_test(vector_program__values_are_looked_up),
        cmocka_unit_test(vector_program__sums_of_rows_keep_their_order),
        cmocka_unit_test(vector_program__second_inputs),
        cmocka_unit_test(vector_program__halves_are_loaded_as_a_transfer_converts_them),
        cmocka_unit_test(vector_program__halves_are_stored_as_a_transfer_converts_them),
        cmocka_unit_test(vector_program__halves_are_looked_up_and_stored),
        cmocka_unit_test(vector_program__rotations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
