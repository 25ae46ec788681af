// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of every variant that this machine runs, against the scalar definitions.
#include "unit/check.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/convert_kernels.h"

enum { CODES = 65536, GUARD = 0x5A };

static const convert_kernels *const all_variants[] = {
    &convert_portable,
#if defined(__x86_64__)
    &convert_avx2,
    &convert_avx512,
#endif
};

enum { VARIANTS = sizeof all_variants / sizeof *all_variants };

static uint16_t codes[CODES];

static int fill_codes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CODES; i++) codes[i] = (uint16_t)i;
    return 0;
}

static uint16_t f16_to_dl16(uint16_t x)
{
    return dl16_from_host_float(fp16_to_float(x));
}

static uint16_t bf16_to_dl16(uint16_t x)
{
    return dl16_from_host_float(bf16_to_float(x));
}

static uint16_t dl16_to_bf16(uint16_t x)
{
    return bf16_from_float(dl16_to_float(x));
}

// One 16-bit to 16-bit kernel of all variants over all codes.
static void check_codes(size_t offset, uint16_t (*scalar)(uint16_t))
{
    static uint16_t got[CODES];
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(all_variants[v])) continue;
        convert_kernel *kernel;
        memcpy(&kernel, (const char *)all_variants[v] + offset, sizeof kernel);
        kernel(got, codes, CODES);
        for (uint32_t i = 0; i < CODES; i++) {
            if (got[i] != scalar((uint16_t)i))
                fail_msg("%s: code %04x gives %04x", all_variants[v]->name, i, got[i]);
        }
    }
}

static void convert__all_codes_equal_the_scalar(void **state)
{
    (void)state;
    check_codes(offsetof(convert_kernels, dl16_from_f16), f16_to_dl16);
    check_codes(offsetof(convert_kernels, f16_from_dl16), dl16_to_host_fp16);
    check_codes(offsetof(convert_kernels, dl16_from_bf16), bf16_to_dl16);
    check_codes(offsetof(convert_kernels, bf16_from_dl16), dl16_to_bf16);
}

static void convert__dl16_to_float_equals_the_scalar(void **state)
{
    (void)state;
    static float got[CODES];
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(all_variants[v])) continue;
        all_variants[v]->f32_from_dl16(got, codes, CODES);
        for (uint32_t i = 0; i < CODES; i++)
            assert_int_equal(float_bits(got[i]), float_bits(dl16_to_float((uint16_t)i)));
        static uint16_t back[CODES];
        all_variants[v]->dl16_from_f32(back, got, CODES);
        assert_memory_equal(back, codes, sizeof codes);
        all_variants[v]->dl16_from_f32_once(back, got, CODES);
        assert_memory_equal(back, codes, sizeof codes);
    }
}

static void check_floats(const float *values, size_t count)
{
    uint16_t *got = malloc(count * sizeof *got);
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(all_variants[v])) continue;
        all_variants[v]->dl16_from_f32(got, values, count);
        for (size_t i = 0; i < count; i++) {
            if (got[i] != dl16_from_host_float(values[i]))
                fail_msg("%s: %a gives %04x", all_variants[v]->name, (double)values[i], got[i]);
        }
        all_variants[v]->dl16_from_f32_once(got, values, count);
        for (size_t i = 0; i < count; i++) assert_int_equal(got[i], dl16_from_float(values[i]));
    }
    free(got);
}

// Every code beside a random one, NaN, infinities and what overflows among them; masked ends.
static void convert__sums_of_rows_add_in_fp32_and_round_once(void **state)
{
    (void)state;
    static uint16_t second[CODES], third[CODES], got[CODES + 1];
    uint64_t seed = 9;
    for (uint32_t i = 0; i < CODES; i++) {
        second[i] = (uint16_t)check_random(&seed);
        third[i] = (uint16_t)check_random(&seed);
    }
    const void *const rows[3] = {codes, second, third};
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(all_variants[v])) continue;
        for (uint32_t count = CODES - 33; count <= CODES; count += 11) {
            float divisor = count == CODES ? 3 : 1;
            got[count] = 0x1234;
            all_variants[v]->dl16_sum(got, rows, 3, divisor, count);
            for (uint32_t i = 0; i < count; i++) {
                float sum = dl16_to_float(codes[i]) + dl16_to_float(second[i]);
                sum = (sum + dl16_to_float(third[i])) / divisor;
                assert_int_equal(got[i], dl16_from_float(sum));
            }
            assert_int_equal(got[count], 0x1234);
        }
    }
}

static void convert__floats_equal_the_scalar(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    float *values = malloc(COUNT * sizeof *values);
    uint64_t seed = 4;
    for (size_t i = 0; i < COUNT; i++) values[i] = float_from_bits((uint32_t)check_random(&seed));
    check_floats(values, COUNT);
    // Every tie and its neighbours, of both signs, up to and beyond the overflow; then 2^-31.
    size_t count = 0;
    for (uint32_t code = 0; code <= 0x8010 && count + 6 <= COUNT; code++) {
        uint32_t tie = DL16_EXPONENT_OFFSET + (code << DL16_FRACTION_SHIFT) + (1u << 13);
        for (uint32_t k = 0; k < 3; k++) {
            values[count++] = float_from_bits(tie - 1 + k);
            values[count++] = float_from_bits((tie - 1 + k) | 0x80000000);
        }
    }
    check_floats(values, count);
    const float special[] = {0.0f, -0.0f, 0x1p-31f, -0x1p-31f, nextafterf(0x1p-31f, 1.0f),
                             nextafterf(0x1p-31f, 0.0f), 0x1p-32f, 0x1p-149f, INFINITY, -INFINITY,
                             NAN, -NAN, 3.4e38f, -3.4e38f, 0x1.ffp32f, 0x1.fep32f, 65504.0f};
    check_floats(special, sizeof special / sizeof *special);
    free(values);
}

static void convert__integers_and_truth_values(void **state)
{
    (void)state;
    const int64_t wide[] = {0, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 31, -(INT64_C(1) << 31), 77};
    const int32_t narrow[] = {0, -1, -1, 0, INT32_MIN, INT32_MIN, 77};
    const uint8_t bytes[] = {0, 1, 2, 127, 128, 255, 9};
    const uint16_t dl16[] = {0, 0x8000, 1, 31 << 9, 0x7FFF, 0xFFFF, 0x8001};
    for (size_t v = 0; v < VARIANTS; v++) {
        const convert_kernels *k = all_variants[v];
        if (!convert_can_run(k)) continue;
        int32_t ints[7];
        int64_t longs[7];
        uint32_t unsigneds[7];
        uint8_t small[7];
        uint16_t words[7];
        k->i32_from_i64(ints, wide, 7);
        assert_memory_equal(ints, narrow, sizeof narrow);
        k->i64_from_i32(longs, narrow, 7);
        for (int i = 0; i < 7; i++) assert_true(longs[i] == narrow[i]);
        k->u32_from_u8(unsigneds, bytes, 7);
        for (int i = 0; i < 7; i++) assert_int_equal(unsigneds[i], bytes[i]);
        unsigneds[0] = 0x1234;
        k->u8_from_u32(small, unsigneds, 7);
        assert_int_equal(small[0], 0x34);
        assert_int_equal(small[5], 255);
        k->dl16_from_bool(words, bytes, 7);
        for (int i = 0; i < 7; i++) assert_int_equal(words[i], bytes[i] ? 31 << 9 : 0);
        k->bool_from_dl16(small, dl16, 7);
        assert_memory_equal(small, "\0\0\1\1\1\1\1", 7);
    }
}

// Every element of the rows, and none beside them, tells whether it fits.
static void convert__integers_that_do_not_fit_are_told(void **state)
{
    (void)state;
    enum { ROWS = 3, STEP = 150 };
    static const int64_t wide[] = {INT64_C(1) << 31, -(INT64_C(1) << 31) - 1, INT64_MAX, INT64_MIN};
    static const size_t counts[] = {1, 7, 32, 64, 77, 128};
    for (size_t v = 0; v < VARIANTS; v++) {
        const convert_kernels *k = all_variants[v];
        if (!convert_can_run(k)) continue;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            int64_t source[ROWS * STEP];
            int32_t got[ROWS * STEP], expected[ROWS * STEP];
            for (size_t i = 0; i < ROWS * STEP; i++)
                source[i] = i % STEP < counts[c] ? (int64_t)i * 9316557 - INT32_MAX : wide[i % 4];
            for (size_t at = 0; at <= ROWS * STEP; at++) {
                bool fits = at == ROWS * STEP || at % STEP >= counts[c];
                int64_t before = source[at % (ROWS * STEP)];
                if (at < ROWS * STEP) source[at] = wide[at % 4];
                memset(got, GUARD, sizeof got);
                memset(expected, GUARD, sizeof expected);
                assert_int_equal(k->i32_from_i64_held((char *)got, STEP * 4, (const char *)source,
                                                      STEP * 8, ROWS, counts[c]), fits);
                k->i32_from_i64_rows((char *)expected, STEP * 4, (const char *)source, STEP * 8,
                                     ROWS, counts[c]);
                assert_memory_equal(got, expected, sizeof got);
                source[at % (ROWS * STEP)] = before;
            }
        }
    }
}

// Runs of every length from any start: right elements, nothing behind the run.
static void check_lengths(const convert_kernels *k, convert_kernel *kernel, size_t target_bytes,
                          size_t source_bytes)
{
    enum { LONGEST = 70 };
    static unsigned char source[LONGEST * 8 + 64], whole[LONGEST * 8 + 64], got[LONGEST * 8 + 64];
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)check_random(&seed);
    kernel(whole, source, LONGEST + 3);
    for (size_t start = 0; start < 3; start++) {
        for (size_t count = 0; count <= LONGEST; count++) {
            memset(got, GUARD, sizeof got);
            kernel(got, source + start * source_bytes, count);
            if (memcmp(got, whole + start * target_bytes, count * target_bytes) != 0)
                fail_msg("%s: %zu elements from %zu", k->name, count, start);
            for (size_t i = count * target_bytes; i < sizeof got; i++)
                assert_int_equal(got[i], GUARD);
        }
    }
}

static void convert__every_run_length(void **state)
{
    (void)state;
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(all_variants[v])) continue;
#define CONVERT_ROW(row, target, source)                            \
    check_lengths(all_variants[v], all_variants[v]->row,            \
                  spyre_format_bytes(SPYRE_FORMAT_##target),        \
                  spyre_format_bytes(SPYRE_FORMAT_##source));
#include "tensor/convert.def"
    }
}

// --- Many rows

enum { MOST_ROWS = 9, LONGEST_ROW = 300, ROOM = MOST_ROWS * (LONGEST_ROW + 40) * 8 };

typedef struct {
    size_t rows, count;
    int64_t target_step, source_step;       // bytes
} rows_shape;

// Whole sticks as often as odd lengths, gaps between the rows.
static rows_shape random_rows(size_t target_bytes, size_t source_bytes, uint64_t *seed)
{
    static const size_t usual[] = {32, 64, 128};
    rows_shape shape = {.rows = check_random(seed) % (MOST_ROWS + 1)};
    shape.count = check_random(seed) % 2 ? usual[check_random(seed) % 3]
                                         : check_random(seed) % (LONGEST_ROW + 1);
    shape.target_step = (int64_t)((shape.count + check_random(seed) % 40) * target_bytes);
    shape.source_step = (int64_t)((shape.count + check_random(seed) % 40) * source_bytes);
    return shape;
}

static unsigned char rows_source[ROOM], rows_expected[ROOM], rows_got[ROOM];

// Random bytes, or elements of which most are usual numbers of a 16-bit format.
static void fill_rows(uint64_t *seed)
{
    bool mild = check_random(seed) % 2;
    for (size_t i = 0; i < sizeof rows_source; i++)
        rows_source[i] = (unsigned char)(mild && i % 2 ? 0x3C : check_random(seed));
    memset(rows_expected, GUARD, sizeof rows_expected);
    memset(rows_got, GUARD, sizeof rows_got);
}

static void check_rows(const char *variant, convert_rows_kernel *rows, convert_kernel *run,
                       size_t target_bytes, size_t source_bytes)
{
    uint64_t seed = 9;
    for (int n = 0; n < 60; n++) {
        rows_shape shape = random_rows(target_bytes, source_bytes, &seed);
        fill_rows(&seed);
        for (int64_t r = 0; r < (int64_t)shape.rows; r++) {
            run(rows_expected + r * shape.target_step, rows_source + r * shape.source_step,
                shape.count);
        }
        rows((char *)rows_got, shape.target_step, (const char *)rows_source, shape.source_step,
             shape.rows, shape.count);
        if (memcmp(rows_got, rows_expected, sizeof rows_got) != 0)
            fail_msg("%s: %zu rows of %zu elements", variant, shape.rows, shape.count);
    }
}

static void convert__rows_of_a_variant_equal_the_portable_runs(void **state)
{
    (void)state;
    for (size_t v = 0; v < VARIANTS; v++) {
        const convert_kernels *k = all_variants[v];
        if (!convert_can_run(k)) continue;
        check_rows(k->name, k->copy_rows, convert_portable.copy, 1, 1);
#define CONVERT_ROW(row, target, source)                            \
    check_rows(k->name, k->row##_rows, convert_portable.row,    \
               spyre_format_bytes(SPYRE_FORMAT_##target),           \
               spyre_format_bytes(SPYRE_FORMAT_##source));
#include "tensor/convert.def"
    }
}

static void convert__rows_of_every_pair_equal_single_elements(void **state)
{
    (void)state;
    uint64_t seed = 10;
    for (int pair = 0; pair < SPYRE_FORMAT_COUNT * SPYRE_FORMAT_COUNT; pair++) {
        converter c;
        spyre_status status = converter_find((spyre_format)(pair / SPYRE_FORMAT_COUNT),
                                             (spyre_format)(pair % SPYRE_FORMAT_COUNT), &c);
        spyre_status_free(status);
        if (status) continue;
        rows_shape shape = random_rows(c.target_bytes, c.source_bytes, &seed);
        fill_rows(&seed);
        for (size_t i = 0; i < shape.rows * shape.count; i++) {
            size_t row = i / shape.count, column = i % shape.count;
            converter_run(&c, rows_expected + row * (size_t)shape.target_step +
                                  column * c.target_bytes,
                          rows_source + row * (size_t)shape.source_step + column * c.source_bytes,
                          1);
        }
        converter_run_rows(&c, (char *)rows_got, shape.target_step, (const char *)rows_source,
                           shape.source_step, shape.rows, shape.count);
        if (memcmp(rows_got, rows_expected, sizeof rows_got) != 0) {
            fail_msg("%s from %s: %zu rows of %zu", spyre_format_name(c.target_format),
                     spyre_format_name(c.source_format), shape.rows, shape.count);
        }
    }
}

// Rows of some lines, also longer than what is converted at a time.
static void convert__streamed_rows_equal_the_others(void **state)
{
    (void)state;
    enum { MOST = 12 * 1024, ROWS = 11 };
    static unsigned char source[ROWS * MOST * 2];
    static _Alignas(64) char expected[ROWS * MOST], got[ROWS * MOST];
    uint64_t seed = 15;
    for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)check_random(&seed);
#define CONVERT_ROW(name, target, source_format)                                                 \
    for (size_t lines = 1; lines <= MOST / 64; lines += 1 + lines * 2) {                         \
        converter c;                                                                             \
        assert_ok(converter_find(SPYRE_FORMAT_##target, SPYRE_FORMAT_##source_format, &c));      \
        size_t count = lines * 64 / c.target_bytes;                                              \
        int64_t step = (int64_t)(count * c.source_bytes) < (int64_t)sizeof source / ROWS         \
                           ? (int64_t)(count * c.source_bytes) : 0;                              \
        if (count * c.source_bytes > sizeof source) continue;                                    \
        memset(expected, GUARD, sizeof expected);                                                \
        memset(got, GUARD, sizeof got);                                                          \
        converter_run_rows(&c, expected, MOST, (const char *)source, step, ROWS, count);         \
        converter_stream_rows(&c, got, MOST, (const char *)source, step, ROWS, count);           \
        convert_stream_end();                                                                    \
        assert_memory_equal(got, expected, sizeof got);                                          \
    }
#include "tensor/convert.def"
    for (size_t v = 0; v < VARIANTS; v++) {
        if (!convert_can_run(all_variants[v])) continue;
        memset(got, GUARD, sizeof got);
        all_variants[v]->stream((char *)got + 64, 64, (const char *)source + 3, 64, 3, 64);
        assert_memory_equal(got + 64, source + 3, 192);
        assert_int_equal((unsigned char)got[63], GUARD);
        assert_int_equal((unsigned char)got[256], GUARD);
    }
}

// The variant is chosen once a process, so each SPYRE_SIMD is tried in a child.
static int index_in_child(const char *wanted)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("SPYRE_LOG", "off", 1);
        setenv("SPYRE_SIMD", wanted, 1);
        int found = 0;
        while (strcmp(all_variants[found]->name, convert_variant()) != 0) found++;
        _exit(found);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void convert__environment_restricts_the_variant(void **state)
{
    (void)state;
    int best = VARIANTS - 1;
    while (!convert_can_run(all_variants[best])) best--;
    for (int v = 0; v < VARIANTS; v++)
        assert_int_equal(index_in_child(all_variants[v]->name), v < best ? v : best);
    assert_int_equal(index_in_child("sse9"), best);
    assert_int_equal(index_in_child(""), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        // First, before this process has chosen.
        cmocka_unit_test(convert__environment_restricts_the_variant),
        cmocka_unit_test(convert__all_codes_equal_the_scalar),
        cmocka_unit_test(convert__dl16_to_float_equals_the_scalar),
        cmocka_unit_test(convert__floats_equal_the_scalar),
        cmocka_unit_test(convert__sums_of_rows_add_in_fp32_and_round_once),
        cmocka_unit_test(convert__integers_and_truth_values),
        cmocka_unit_test(convert__integers_that_do_not_fit_are_told),
        cmocka_unit_test(convert__every_run_length),
        cmocka_unit_test(convert__rows_of_a_variant_equal_the_portable_runs),
        cmocka_unit_test(convert__rows_of_every_pair_equal_single_elements),
        cmocka_unit_test(convert__streamed_rows_equal_the_others),
    };
    return cmocka_run_group_tests(tests, fill_codes, NULL);
}
