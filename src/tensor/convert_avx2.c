// SPDX-License-Identifier: Apache-2.0
//
// Eight elements a step in 32-bit lanes, sixteen between formats of two bytes; the last step of a
// run goes through a buffer.
#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,f16c")
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "tensor/convert_kernels.h"

static inline __m256i set(uint32_t bits)
{
    return _mm256_set1_epi32((int)bits);
}

static inline __m128i load_eight_words(const void *source)
{
    __m128i words;
    memcpy(&words, source, sizeof words);
    return words;
}

static inline __m256i load_words(const void *source)
{
    return _mm256_cvtepu16_epi32(load_eight_words(source));
}

// The words lie in the low halves of the lanes.
static inline void store_words(void *target, __m256i words)
{
    __m256i packed = _mm256_packus_epi32(words, words);
    packed = _mm256_permute4x64_epi64(packed, 0x08);
    __m128i low = _mm256_castsi256_si128(packed);
    memcpy(target, &low, sizeof low);
}

// fp32 bits of eight codes, as dl16_to_float.
static inline __m256i widen(__m256i codes)
{
    __m256i magnitude = _mm256_and_si256(codes, set(0x7FFF));
    __m256i zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    __m256i merged = _mm256_cmpeq_epi32(magnitude, set(DL16_MERGED));
    __m256i bits = _mm256_slli_epi32(magnitude, DL16_FRACTION_SHIFT);
    bits = _mm256_andnot_si256(zero, _mm256_add_epi32(bits, set(DL16_EXPONENT_OFFSET)));
    bits = _mm256_blendv_epi8(bits, set(0x7F800000), merged);
    __m256i sign = _mm256_and_si256(_mm256_slli_epi32(codes, 16), set(0x80000000));
    return _mm256_or_si256(bits, sign);
}

// Codes of eight fp32 values: as dl16_from_host_float with a `limit` of DL16_LARGEST,
// dl16_from_float with DL16_MERGED.
static inline __m256i narrow(__m256i bits, uint32_t limit)
{
    __m256i magnitude = _mm256_and_si256(bits, set(0x7FFFFFFF));
    __m256i special = _mm256_cmpgt_epi32(magnitude, set(0x7F7FFFFF));
    __m256i code = _mm256_max_epu32(magnitude, set(DL16_EXPONENT_OFFSET));
    code = _mm256_sub_epi32(code, set(DL16_EXPONENT_OFFSET - (1u << 13)));
    code = _mm256_srli_epi32(code, DL16_FRACTION_SHIFT);
    code = _mm256_min_epu32(code, set(limit));
    code = _mm256_blendv_epi8(code, set(DL16_MERGED), special);
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 16), set(DL16_SIGN));
    sign = _mm256_andnot_si256(_mm256_cmpgt_epi32(magnitude, set(0x7F800000)), sign);
    return _mm256_or_si256(code, sign);
}

static inline __m256i load_bits(const void *source)
{
    __m256i bits;
    memcpy(&bits, source, sizeof bits);
    return bits;
}

static inline __m256i load_halves(const void *source)
{
    return _mm256_castps_si256(_mm256_cvtph_ps(load_eight_words(source)));
}

static inline void store_bits(void *target, __m256i bits)
{
    memcpy(target, &bits, sizeof bits);
}

// fp16 of finite values and infinities, 65536 giving 65504.
static inline void store_halves(void *target, __m256i bits)
{
    __m256i magnitude = _mm256_and_si256(bits, set(0x7FFFFFFF));
    __m256i limit = _mm256_cmpeq_epi32(magnitude, set(0x47800000));
    __m256i kept = _mm256_sub_epi32(bits, _mm256_and_si256(limit, set(0x2000)));
    __m128i halves = _mm256_cvtps_ph(_mm256_castsi256_ps(kept), _MM_FROUND_TO_NEAREST_INT);
    memcpy(target, &halves, sizeof halves);
}

#define KERNEL(inlined, name, target_type, source_type, LOAD, CONVERT, STORE)                   \
    inlined name(void *target, const void *source, size_t count)                               \
    {                                                                                          \
        target_type *t = target;                                                               \
        const source_type *s = source;                                                         \
        size_t i = 0;                                                                          \
        for (; i + 8 <= count; i += 8) STORE(t + i, CONVERT(LOAD(s + i)));                     \
        if (i == count) return;                                                                \
        source_type rest[8] = {0};                                                             \
        target_type done[8];                                                                   \
        memcpy(rest, s + i, (count - i) * sizeof *s);                                          \
        STORE(done, CONVERT(LOAD(rest)));                                                      \
        memcpy(t + i, done, (count - i) * sizeof *t);                                          \
    }

#define SATURATE(bits) narrow(bits, DL16_LARGEST)
#define ONCE(bits)     narrow(bits, DL16_MERGED)

KERNEL(static void, dl16_from_any_f32, uint16_t, float, load_bits, SATURATE, store_words)
KERNEL(static void, dl16_from_any_f32_once, uint16_t, float, load_bits, ONCE, store_words)
KERNEL(CONVERT_KERNEL, f32_from_dl16, float, uint16_t, load_words, widen, store_bits)
KERNEL(static void, dl16_from_any_f16, uint16_t, uint16_t, load_halves, SATURATE, store_words)
KERNEL(static void, f16_from_any_dl16, uint16_t, uint16_t, load_words, widen, store_halves)

// Rounded magnitudes before they saturate; negative where zero is due.
static inline __m256i round_magnitude(__m256i bits)
{
    __m256i magnitude = _mm256_and_si256(bits, set(0x7FFFFFFF));
    magnitude = _mm256_sub_epi32(magnitude, set(DL16_EXPONENT_OFFSET - (1u << 13)));
    return _mm256_srai_epi32(magnitude, DL16_FRACTION_SHIFT);
}

// Infinity for NaN, whose sign is the host's choice: of a NaN the instruction gives the second.
static inline __m256i infinite_for_nan(__m256i bits)
{
    return _mm256_castps_si256(
        _mm256_min_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(INFINITY)));
}

// Sixteen codes, at most `limit`. Packing saturates: magnitudes as unsigned words, signs as signed
// ones. Magnitudes beyond the format leave their highest bit in `rare`: of finite values,
// infinities or NaN.
static inline __m256i narrow_words(__m256i first, __m256i second, uint32_t limit, __m256i *rare)
{
    first = infinite_for_nan(first);
    second = infinite_for_nan(second);
    __m256i codes = _mm256_packus_epi32(round_magnitude(first), round_magnitude(second));
    __m256i signs = _mm256_and_si256(_mm256_packs_epi32(first, second), set(0x80008000));
    *rare = _mm256_or_si256(*rare, codes);
    codes = _mm256_min_epu16(codes, _mm256_set1_epi16((short)limit));
    return _mm256_permute4x64_epi64(_mm256_or_si256(codes, signs), 0xD8);
}

// Whole registers only; says whether there are rare ones.
static inline __attribute__((always_inline)) bool narrow_floats(uint16_t *t, const float *s,
                                                                size_t count, uint32_t limit)
{
    __m256i rare = _mm256_setzero_si256();
    for (size_t i = 0; i + 16 <= count; i += 16)
        store_bits(t + i, narrow_words(load_bits(s + i), load_bits(s + i + 8), limit, &rare));
    return !_mm256_testz_si256(rare, set(0x80008000));
}

CONVERT_KERNEL dl16_from_f32_once(void *target, const void *source, size_t count)
{
    size_t whole = count / 16 * 16;
    narrow_floats(target, source, count, DL16_MERGED);
    if (count % 16)
        dl16_from_any_f32_once((uint16_t *)target + whole, (const float *)source + whole,
                               count % 16);
}

static inline __attribute__((always_inline)) bool f32_words(uint16_t *t, const float *s,
                                                            size_t count)
{
    return narrow_floats(t, s, count, DL16_LARGEST) || count % 16;
}

CONVERT_PARTS(dl16_from_f32, uint16_t, float, f32_words, dl16_from_any_f32)

// --- Between formats of two bytes, sixteen elements in 16-bit lanes

static inline __m256i set_words(uint32_t bits)
{
    return _mm256_set1_epi16((short)bits);
}

static inline __m256i with_sign(__m256i magnitude, __m256i words)
{
    return _mm256_or_si256(magnitude, _mm256_and_si256(words, set_words(DL16_SIGN)));
}

// Subnormal halves and NaN go to `rare`.
static inline __m256i codes_of_halves(__m256i halves, __m256i *rare)
{
    __m256i magnitude = _mm256_and_si256(halves, set_words(0x7FFF));
    __m256i zero = _mm256_cmpeq_epi16(magnitude, _mm256_setzero_si256());
    __m256i subnormal = _mm256_cmpgt_epi16(set_words(F16_NORMAL), magnitude);
    *rare = _mm256_or_si256(*rare, _mm256_andnot_si256(zero, subnormal));
    *rare = _mm256_or_si256(*rare, _mm256_cmpgt_epi16(magnitude, set_words(F16_INFINITE)));
    __m256i special = _mm256_cmpgt_epi16(magnitude, set_words(F16_INFINITE - 1));
    __m256i code = _mm256_srli_epi16(_mm256_add_epi16(magnitude, set_words(1)), 1);
    code = _mm256_andnot_si256(zero, _mm256_add_epi16(code, set_words(F16_BIAS_STEP)));
    return with_sign(_mm256_blendv_epi8(code, set_words(DL16_MERGED), special), halves);
}

// Codes below and above the normal halves go to `rare`.
static inline __m256i halves_of_codes(__m256i codes, __m256i *rare)
{
    __m256i magnitude = _mm256_and_si256(codes, set_words(0x7FFF));
    __m256i zero = _mm256_cmpeq_epi16(magnitude, _mm256_setzero_si256());
    __m256i merged = _mm256_cmpeq_epi16(magnitude, set_words(DL16_MERGED));
    __m256i above = _mm256_sub_epi16(magnitude, set_words(DL16_F16_NORMAL));
    __m256i most = set_words(DL16_FP16_LIMIT - 1 - DL16_F16_NORMAL);
    __m256i normal = _mm256_cmpeq_epi16(_mm256_max_epu16(above, most), most);
    __m256i usual = _mm256_or_si256(_mm256_or_si256(normal, zero), merged);
    *rare = _mm256_or_si256(*rare, _mm256_xor_si256(usual, set_words(0xFFFF)));
    __m256i half = _mm256_slli_epi16(_mm256_sub_epi16(magnitude, set_words(F16_BIAS_STEP)), 1);
    half = _mm256_blendv_epi8(half, set_words(F16_INFINITE), merged);
    return with_sign(_mm256_andnot_si256(zero, half), codes);
}

static inline __m256i codes_of_bfloats(__m256i words, __m256i *rare)
{
    (void)rare;
    __m256i magnitude = _mm256_and_si256(words, set_words(0x7FFF));
    __m256i special = _mm256_cmpgt_epi16(magnitude, set_words(BF16_INFINITE - 1));
    __m256i code = _mm256_subs_epu16(magnitude, set_words(BF16_BIAS_STEP));
    code = _mm256_slli_epi16(_mm256_min_epu16(code, set_words(BF16_SPAN)), 2);
    code = _mm256_min_epu16(code, set_words(DL16_LARGEST));
    __m256i nan = _mm256_cmpgt_epi16(magnitude, set_words(BF16_INFINITE));
    words = _mm256_andnot_si256(nan, words);
    return with_sign(_mm256_blendv_epi8(code, set_words(DL16_MERGED), special), words);
}

static inline __m256i bfloats_of_codes(__m256i codes, __m256i *rare)
{
    (void)rare;
    __m256i magnitude = _mm256_and_si256(codes, set_words(0x7FFF));
    __m256i zero = _mm256_cmpeq_epi16(magnitude, _mm256_setzero_si256());
    __m256i merged = _mm256_cmpeq_epi16(magnitude, set_words(DL16_MERGED));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi16(magnitude, 2), set_words(1));
    __m256i rounded = _mm256_add_epi16(_mm256_add_epi16(magnitude, set_words(1)), odd);
    rounded = _mm256_add_epi16(_mm256_srli_epi16(rounded, 2), set_words(BF16_BIAS_STEP));
    rounded = _mm256_blendv_epi8(rounded, set_words(BF16_INFINITE), merged);
    return with_sign(_mm256_andnot_si256(zero, rounded), codes);
}

// Says whether some of the words are rare ones of CONVERT.
#define WORDS(name, CONVERT)                                                                   \
    static inline __attribute__((always_inline)) bool name(uint16_t *t, const uint16_t *s,     \
                                                           size_t count)                       \
    {                                                                                          \
        __m256i rare = _mm256_setzero_si256();                                                 \
        size_t i = 0;                                                                          \
        for (; i + 16 <= count; i += 16) store_bits(t + i, CONVERT(load_bits(s + i), &rare));  \
        if (i < count) {                                                                       \
            uint16_t rest[16] = {0};                                                           \
            memcpy(rest, s + i, (count - i) * sizeof *s);                                      \
            store_bits(rest, CONVERT(load_bits(rest), &rare));                                 \
            memcpy(t + i, rest, (count - i) * sizeof *t);                                      \
        }                                                                                      \
        return !_mm256_testz_si256(rare, rare);                                                \
    }

CONVERT_WORD_KERNELS(WORDS)
#define narrow_integers narrow_each
CONVERT_SHARED_LOOPS
CONVERT_SUM

static void stream(char *target, int64_t target_step, const char *source, int64_t source_step,
                   size_t rows, size_t count)
{
    for (; rows; rows--, target += target_step, source += source_step)
        for (size_t i = 0; i < count; i += 32)
            _mm256_stream_si256((void *)(target + i), load_bits(source + i));
}

#define CONVERT_ROW(name, target, source) CONVERT_ROWS(name, CONVERT_BYTES_##target)
#include "tensor/convert.def"

const convert_kernels convert_avx2 = {
    .name = "avx2",
    .i32_from_i64_held = i32_from_i64_held,
    .copy = copy,
    .copy_rows = copy_rows,
    .stream = stream,
    .dl16_from_f32_once = dl16_from_f32_once,
    .dl16_sum = dl16_sum,
#define CONVERT_ROW(name, target, source) .name = name, .name##_rows = name##_rows,
#include "tensor/convert.def"
};
#endif
