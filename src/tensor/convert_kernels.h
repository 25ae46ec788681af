// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one variant, and the loops that all variants share: plain C that the compiler
// vectorises for the instruction set of the including file. Private to src/tensor and its tests.
#ifndef TENSOR_CONVERT_KERNELS_H
#define TENSOR_CONVERT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tensor/convert.h"
#include "tensor/numeric.h"

// As convert_dl16_sum().
typedef void convert_sum_kernel(void *target, const void *const *rows, uint32_t row_count,
                                float divisor, size_t count);

typedef struct {
    const char *name;
#define CONVERT_ROW(name, target, source) convert_kernel *name; convert_rows_kernel *name##_rows;
#include "tensor/convert.def"
    convert_held_kernel *i32_from_i64_held;
    convert_kernel *copy;                   // of bytes
    convert_rows_kernel *copy_rows;
    convert_rows_kernel *stream;            // of bytes, whole lines of 64, past the caches
    convert_kernel *dl16_from_f32_once;     // as opfuncs store: overflow gives the merged code
    convert_sum_kernel *dl16_sum;
} convert_kernels;

extern const convert_kernels convert_portable;
#if defined(__x86_64__)
extern const convert_kernels convert_avx2;
extern const convert_kernels convert_avx512;
#endif

// True when this machine can run the variant.
bool convert_can_run(const convert_kernels *kernels);

// Kernels are inlined into those of rows, where the usual lengths are constants: sticks of elements
// of one (or bytes of a copy), two and four bytes.
#define CONVERT_KERNEL static inline __attribute__((always_inline)) void

// Bytes of an element.
enum {
#define SPYRE_FORMAT_ROW(name, number, bits, number_class) CONVERT_BYTES_##name = bits / 8,
#include "spyre/dtype.def"
};

// Steps are too far apart for the processor to fetch the next row by itself. What is about to be
// written is what a run waits for: up to four lines of the next row, and none behind the last one,
// which another thread may be writing.
#define CONVERT_EACH_ROW(name, bytes, length)                                                  \
    for (; rows; rows--, target += target_step, source += source_step) {                       \
        const char *next = target + (rows > 1 ? target_step : 0);                              \
        for (size_t at = 0; at < 256 && at < (length) * (bytes); at += 64)                     \
            __builtin_prefetch(next + at, 1);                                                  \
        name(target, source, length);                                                          \
    }

#define CONVERT_ALL_ROWS(name, bytes)                                                          \
    if (count == 128) CONVERT_EACH_ROW(name, bytes, 128)                                       \
    else if (count == 64) CONVERT_EACH_ROW(name, bytes, 64)                                    \
    else if (count == 32) CONVERT_EACH_ROW(name, bytes, 32)                                    \
    else CONVERT_EACH_ROW(name, bytes, count)

#define CONVERT_ROWS(name, bytes)                                                              \
    static void name##_rows(char *target, int64_t target_step, const char *source,             \
                            int64_t source_step, size_t rows, size_t count)                    \
    {                                                                                          \
        CONVERT_ALL_ROWS(name, bytes)                                                          \
    }

// A kernel of two: FAST says whether a part has elements that it does not convert, then WHOLE does.
#define CONVERT_PARTS(name, target_type, source_type, FAST, WHOLE)                             \
    CONVERT_KERNEL name(void *target, const void *source, size_t count)                        \
    {                                                                                          \
        target_type *t = target;                                                               \
        const source_type *s = source;                                                         \
        for (size_t done = 0, now; done < count; done += now) {                                \
            now = count - done < 256 ? count - done : 256;                                     \
            if (FAST(t + done, s + done, now)) WHOLE(t + done, s + done, now);                 \
        }                                                                                      \
    }

// The kernels between formats of two bytes. WORDS(name, conversion) makes a loop over the variant's
// conversion of one register, which says whether some of its words are rare.
#define CONVERT_WORD_KERNELS(WORDS)                                                            \
    WORDS(f16_words, codes_of_halves)                                                          \
    WORDS(dl16_words, halves_of_codes)                                                         \
    WORDS(bf16_words, codes_of_bfloats)                                                        \
    WORDS(dl16_words_to_bf16, bfloats_of_codes)                                                \
    CONVERT_PARTS(dl16_from_f16, uint16_t, uint16_t, f16_words, dl16_from_any_f16)             \
    CONVERT_PARTS(f16_from_dl16, uint16_t, uint16_t, dl16_words, f16_from_any_dl16)            \
    CONVERT_KERNEL dl16_from_bf16(void *target, const void *source, size_t count)              \
    {                                                                                          \
        bf16_words(target, source, count);                                                     \
    }                                                                                          \
    CONVERT_KERNEL bf16_from_dl16(void *target, const void *source, size_t count)              \
    {                                                                                          \
        dl16_words_to_bf16(target, source, count);                                             \
    }

enum { DL16_ONE = 31 << 9 };

// Between formats of two bytes, in 16-bit lanes. A normal fp16 and its code differ in the bias and
// in one bit of fraction, which is rounded away from zero; subnormal fp16 needs more. bfloat16 and
// its code differ in the bias and in two bits of fraction, there is nothing else but the limits.
enum {
    F16_NORMAL = 0x0400,                // the least one
    F16_INFINITE = 0x7C00,
    F16_BIAS_STEP = (31 - 15) << 9,     // in codes
    DL16_F16_NORMAL = F16_BIAS_STEP + (1 << 9),
    BF16_INFINITE = 0x7F80,
    BF16_BIAS_STEP = (127 - 31) << 7,   // in bfloat16s
    BF16_SPAN = 64 << 7,                // of the codes, in bfloat16s
};

// A kernel with t[i] = expression of s[i].
#define CONVERT_LOOP(name, target_type, source_type, expression)                               \
    CONVERT_KERNEL name(void *target, const void *source, size_t count)                        \
    {                                                                                          \
        target_type *t = target;                                                               \
        const source_type *s = source;                                                         \
        for (size_t i = 0; i < count; i++) {                                                   \
            source_type x = s[i];                                                              \
            t[i] = (target_type)(expression);                                                  \
        }                                                                                      \
    }

// dl16_sum by the conversions of a variant, whose fp32 sums stay in the first cache.
#define CONVERT_SUM                                                                            \
    static void dl16_sum(void *target, const void *const *rows, uint32_t row_count,            \
                         float divisor, size_t count)                                          \
    {                                                                                          \
        float sum[256], next[256];                                                             \
        for (size_t at = 0, now; at < count; at += now) {                                      \
            now = count - at < 256 ? count - at : 256;                                         \
            f32_from_dl16(sum, (const uint16_t *)rows[0] + at, now);                           \
            for (uint32_t r = 1; r < row_count; r++) {                                         \
                f32_from_dl16(next, (const uint16_t *)rows[r] + at, now);                      \
                for (size_t i = 0; i < now; i++) sum[i] += next[i];                            \
            }                                                                                  \
            for (size_t i = 0; divisor != 1 && i < now; i++) sum[i] /= divisor;                \
            dl16_from_f32_once((uint16_t *)target + at, sum, now);                             \
        }                                                                                      \
    }

// i32_from_i64 that returns, above the lowest 32 bits, whether a value does not fit. A variant may
// have its own narrow_integers.
static inline __attribute__((always_inline)) uint64_t narrow_each(uint32_t *t, const uint64_t *s,
                                                                  size_t count)
{
    uint64_t beyond = 0;
    for (size_t i = 0; i < count; i++) {
        beyond |= s[i] + (UINT64_C(1) << 31);
        t[i] = (uint32_t)s[i];
    }
    return beyond;
}

#define CONVERT_HELD(target, source, count)                                                    \
    beyond |= narrow_integers((uint32_t *)(void *)(target),                                    \
                              (const uint64_t *)(const void *)(source), count)

#define CONVERT_SHARED_LOOPS                                                                   \
    CONVERT_LOOP(dl16_from_bool, uint16_t, uint8_t, x ? DL16_ONE : 0)                          \
    CONVERT_LOOP(bool_from_dl16, uint8_t, uint16_t, (x & 0x7FFF) != 0)                         \
    CONVERT_LOOP(i32_from_i64, uint32_t, uint64_t, x)                                          \
    static bool i32_from_i64_held(char *target, int64_t target_step, const char *source,       \
                                  int64_t source_step, size_t rows, size_t count)              \
    {                                                                                          \
        uint64_t beyond = 0;                                                                   \
        CONVERT_ALL_ROWS(CONVERT_HELD, 4)                                                      \
        return beyond >> 32 == 0;                                                              \
    }                                                                                          \
    CONVERT_LOOP(i64_from_i32, int64_t, int32_t, x)                                            \
    CONVERT_LOOP(u32_from_u8, uint32_t, uint8_t, x)                                            \
    CONVERT_LOOP(u8_from_u32, uint8_t, uint32_t, x)                                            \
    CONVERT_KERNEL copy(void *target, const void *source, size_t count)                        \
    {                                                                                          \
        if (target != source) memcpy(target, source, count);                                   \
    }                                                                                          \
    CONVERT_ROWS(copy, 1)

#endif
