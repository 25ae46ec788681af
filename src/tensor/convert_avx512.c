// SPDX-License-Identifier: Apache-2.0
//
// Sixteen elements a step in 32-bit lanes, thirty-two between formats of two bytes; the last step
// of a run is masked.
#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")
#include <immintrin.h>
#include <math.h>

#include "tensor/convert_kernels.h"

static inline __m512i load_words(const void *source, size_t at, __mmask16 mask)
{
    const uint16_t *s = source;
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, s + at));
}

static inline void store_words(void *target, size_t at, __mmask16 mask, __m512i words)
{
    uint16_t *t = target;
    _mm512_mask_cvtepi32_storeu_epi16(t + at, mask, words);
}

static inline __m512i set(uint32_t bits)
{
    return _mm512_set1_epi32((int)bits);
}

// fp32 bits of sixteen codes, as dl16_to_float.
static inline __m512i widen(__m512i codes)
{
    __m512i magnitude = _mm512_and_si512(codes, set(0x7FFF));
    __mmask16 finite = _mm512_test_epi32_mask(magnitude, magnitude);
    __mmask16 merged = _mm512_cmpeq_epi32_mask(magnitude, set(DL16_MERGED));
    __m512i shifted = _mm512_slli_epi32(magnitude, DL16_FRACTION_SHIFT);
    __m512i bits = _mm512_maskz_add_epi32(finite, shifted, set(DL16_EXPONENT_OFFSET));
    bits = _mm512_mask_mov_epi32(bits, merged, set(0x7F800000));
    __m512i sign = _mm512_and_si512(_mm512_slli_epi32(codes, 16), set(0x80000000));
    return _mm512_or_si512(bits, sign);
}

// Codes of sixteen fp32 values, as dl16_from_host_float.
static inline __m512i narrow(__m512i bits)
{
    __m512i magnitude = _mm512_and_si512(bits, set(0x7FFFFFFF));
    __mmask16 special = _mm512_cmpge_epu32_mask(magnitude, set(0x7F800000));
    __m512i code = _mm512_max_epu32(magnitude, set(DL16_EXPONENT_OFFSET));
    code = _mm512_sub_epi32(code, set(DL16_EXPONENT_OFFSET - (1u << 13)));
    code = _mm512_srli_epi32(code, DL16_FRACTION_SHIFT);
    code = _mm512_min_epu32(code, set(DL16_LARGEST));
    code = _mm512_mask_mov_epi32(code, special, set(DL16_MERGED));
    __mmask16 number = _mm512_cmple_epu32_mask(magnitude, set(0x7F800000));
    __m512i sign = _mm512_maskz_and_epi32(number, _mm512_srli_epi32(bits, 16), set(DL16_SIGN));
    return _mm512_or_si512(code, sign);
}

static inline __m512i load_floats(const void *source, size_t at, __mmask16 mask)
{
    const float *s = source;
    return _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, s + at));
}

static inline __m512i load_halves(const void *source, size_t at, __mmask16 mask)
{
    const uint16_t *s = source;
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, s + at)));
}

static inline void store_floats(void *target, size_t at, __mmask16 mask, __m512i bits)
{
    float *t = target;
    _mm512_mask_storeu_ps(t + at, mask, _mm512_castsi512_ps(bits));
}

// fp16 of finite values and infinities, 65536 giving 65504.
static inline void store_halves(void *target, size_t at, __mmask16 mask, __m512i bits)
{
    uint16_t *t = target;
    __m512i magnitude = _mm512_and_si512(bits, set(0x7FFFFFFF));
    __mmask16 limit = _mm512_cmpeq_epi32_mask(magnitude, set(0x47800000));
    __m512i kept = _mm512_mask_sub_epi32(bits, limit, bits, set(0x2000));
    // The masked form: at -O0 GCC writes the plain one as a macro with a conversion of -1.
    __m256i halves = _mm512_maskz_cvtps_ph(0xFFFF, _mm512_castsi512_ps(kept),
                                           _MM_FROUND_TO_NEAREST_INT);
    _mm256_mask_storeu_epi16(t + at, mask, halves);
}

// fp32 bits of 32 codes at a time, as widen: the high and the low halves of the results are made as
// words and then interleaved, within each 128 bits.
static inline void widen_in_lanes(__m512i codes, __m512i *out_first, __m512i *out_second)
{
    __m512i magnitude = _mm512_and_si512(codes, set(0x7FFF7FFF));
    __mmask32 finite = _mm512_test_epi16_mask(magnitude, magnitude);
    __mmask32 plain = _mm512_cmpneq_epi16_mask(magnitude, set(0x7FFF7FFF));
    __m512i high = _mm512_srli_epi16(magnitude, 16 - DL16_FRACTION_SHIFT);
    high = _mm512_maskz_add_epi16(finite, high, _mm512_set1_epi16(DL16_EXPONENT_OFFSET >> 16));
    high = _mm512_mask_blend_epi16(plain, _mm512_set1_epi16(0x7F80), high);
    high = _mm512_ternarylogic_epi32(high, codes, set(0x80008000), 0xF8);   // a | (b & c)
    __m512i low = _mm512_maskz_slli_epi16(plain, codes, DL16_FRACTION_SHIFT);
    *out_first = _mm512_unpacklo_epi16(low, high);
    *out_second = _mm512_unpackhi_epi16(low, high);
}

// In order: quarters are put where interleaving within 128 bits leaves them in order.
static inline void widen_words(__m512i codes, __m512i *out_first, __m512i *out_second)
{
    codes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), codes);
    widen_in_lanes(codes, out_first, out_second);
}

CONVERT_KERNEL f32_from_dl16(void *target, const void *source, size_t count)
{
    const uint16_t *s = source;
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512i first, second;
        widen_words(_mm512_loadu_si512(s + i), &first, &second);
        store_floats(target, i, 0xFFFF, first);
        store_floats(target, i + 16, 0xFFFF, second);
    }
    for (; i < count; i += 16) {
        __mmask16 rest = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1 : 0xFFFF);
        store_floats(target, i, rest, widen(load_words(source, i, rest)));
    }
}

#define KERNEL(inlined, name, LOAD, CONVERT, STORE)                                            \
    inlined name(void *target, const void *source, size_t count)                               \
    {                                                                                          \
        const __mmask16 all = 0xFFFF;                                                          \
        size_t i = 0;                                                                          \
        for (; i + 16 <= count; i += 16) STORE(target, i, all, CONVERT(LOAD(source, i, all))); \
        if (i == count) return;                                                                \
        __mmask16 rest = (__mmask16)((1u << (count - i)) - 1);                                 \
        STORE(target, i, rest, CONVERT(LOAD(source, i, rest)));                                \
    }

KERNEL(static void, dl16_from_any_f32, load_floats, narrow, store_words)

// Rounded magnitudes before they saturate; negative where zero is due.
static inline __m512i round_magnitude(__m512i bits)
{
    __m512i magnitude = _mm512_and_si512(bits, set(0x7FFFFFFF));
    magnitude = _mm512_sub_epi32(magnitude, set(DL16_EXPONENT_OFFSET - (1u << 13)));
    return _mm512_srai_epi32(magnitude, DL16_FRACTION_SHIFT);
}

// Infinity for NaN, whose sign is the host's choice: of a NaN the instruction gives the second.
static inline __m512i infinite_for_nan(__m512i bits)
{
    return _mm512_castps_si512(
        _mm512_min_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(INFINITY)));
}

// 32 codes, at most `limit`, of what widen_in_lanes() gives. Packing saturates: magnitudes as
// unsigned words, signs as signed ones. Magnitudes beyond the format leave their highest bit in
// `rare`: of finite values, infinities or NaN.
static inline __m512i narrow_in_lanes(__m512i first, __m512i second, uint32_t limit, __m512i *rare)
{
    first = infinite_for_nan(first);
    second = infinite_for_nan(second);
    __m512i codes = _mm512_packus_epi32(round_magnitude(first), round_magnitude(second));
    __m512i signs = _mm512_packs_epi32(first, second);
    *rare = _mm512_or_si512(*rare, codes);
    codes = _mm512_min_epu16(codes, _mm512_set1_epi16((short)limit));
    return _mm512_ternarylogic_epi32(signs, codes, set(0x7FFF7FFF), 0xD8);  // c ? b : a
}

static inline __m512i narrow_words(__m512i first, __m512i second, uint32_t limit, __m512i *rare)
{
    __m512i codes = narrow_in_lanes(first, second, limit, rare);
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), codes);
}

// Says whether there are rare ones.
static inline __attribute__((always_inline)) bool narrow_floats(uint16_t *t, const float *s,
                                                                size_t count, uint32_t limit)
{
    __m512i rare = _mm512_setzero_si512();
    for (; count >= 32; count -= 32, t += 32, s += 32) {
        __m512i first = load_floats(s, 0, 0xFFFF), second = load_floats(s, 16, 0xFFFF);
        _mm512_storeu_si512(t, narrow_words(first, second, limit, &rare));
    }
    if (count) {
        __mmask32 rest = (1u << count) - 1;
        __m512i first = load_floats(s, 0, (__mmask16)rest);
        __m512i second = load_floats(s, 16, (__mmask16)(rest >> 16));
        _mm512_mask_storeu_epi16(t, rest, narrow_words(first, second, limit, &rare));
    }
    return _mm512_test_epi16_mask(rare, set(0x80008000)) != 0;
}

CONVERT_KERNEL dl16_from_f32_once(void *target, const void *source, size_t count)
{
    narrow_floats(target, source, count, DL16_MERGED);
}

// 32 sums, in registers from the first load to the store.
static inline __attribute__((always_inline)) __m512i sum_words(const void *const *rows,
                                                               uint32_t row_count, float divisor,
                                                               size_t at, __mmask32 mask)
{
    __m512i first, second, rare = _mm512_setzero_si512();
    __m512i words = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)rows[0] + at);
    widen_in_lanes(words, &first, &second);
    __m512 low = _mm512_castsi512_ps(first), high = _mm512_castsi512_ps(second);
    for (uint32_t r = 1; r < row_count; r++) {
        words = _mm512_maskz_loadu_epi16(mask, (const uint16_t *)rows[r] + at);
        widen_in_lanes(words, &first, &second);
        low = _mm512_add_ps(low, _mm512_castsi512_ps(first));
        high = _mm512_add_ps(high, _mm512_castsi512_ps(second));
    }
    if (divisor != 1) {
        low = _mm512_div_ps(low, _mm512_set1_ps(divisor));
        high = _mm512_div_ps(high, _mm512_set1_ps(divisor));
    }
    return narrow_in_lanes(_mm512_castps_si512(low), _mm512_castps_si512(high), DL16_MERGED,
                           &rare);
}

static void dl16_sum(void *target, const void *const *rows, uint32_t row_count, float divisor,
                     size_t count)
{
    uint16_t *t = target;
    size_t at = 0;
    for (; at + 32 <= count; at += 32)
        _mm512_storeu_si512(t + at, sum_words(rows, row_count, divisor, at, 0xFFFFFFFF));
    __mmask32 rest = (1u << (count - at)) - 1;
    if (rest)
        _mm512_mask_storeu_epi16(t + at, rest, sum_words(rows, row_count, divisor, at, rest));
}

static inline __attribute__((always_inline)) bool f32_words(uint16_t *t, const float *s,
                                                            size_t count)
{
    return narrow_floats(t, s, count, DL16_LARGEST);
}

CONVERT_PARTS(dl16_from_f32, uint16_t, float, f32_words, dl16_from_any_f32)
KERNEL(static void, dl16_from_any_f16, load_halves, narrow, store_words)
KERNEL(static void, f16_from_any_dl16, load_words, widen, store_halves)

// --- Between formats of two bytes, 32 elements in 16-bit lanes

static inline __m512i set_words(uint32_t bits)
{
    return _mm512_set1_epi16((short)bits);
}

// magnitude | (words & DL16_SIGN)
static inline __m512i with_sign(__m512i magnitude, __m512i words)
{
    return _mm512_ternarylogic_epi32(magnitude, words, set_words(DL16_SIGN), 0xF8);
}

// Subnormal halves and NaN go to `rare`.
static inline __m512i codes_of_halves(__m512i halves, __mmask32 *rare)
{
    __m512i magnitude = _mm512_and_si512(halves, set_words(0x7FFF));
    __mmask32 nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
    __mmask32 subnormal = _mm512_cmplt_epu16_mask(magnitude, set_words(F16_NORMAL));
    *rare |= (nonzero & subnormal) | _mm512_cmpgt_epu16_mask(magnitude, set_words(F16_INFINITE));
    __mmask32 special = _mm512_cmpge_epu16_mask(magnitude, set_words(F16_INFINITE));
    __m512i code = _mm512_srli_epi16(_mm512_add_epi16(magnitude, set_words(1)), 1);
    code = _mm512_maskz_add_epi16(nonzero, code, set_words(F16_BIAS_STEP));
    return with_sign(_mm512_mask_mov_epi16(code, special, set_words(DL16_MERGED)), halves);
}

// Codes below and above the normal halves go to `rare`.
static inline __m512i halves_of_codes(__m512i codes, __mmask32 *rare)
{
    __m512i magnitude = _mm512_and_si512(codes, set_words(0x7FFF));
    __mmask32 nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
    __mmask32 merged = _mm512_cmpeq_epi16_mask(magnitude, set_words(DL16_MERGED));
    __m512i above = _mm512_sub_epi16(magnitude, set_words(DL16_F16_NORMAL));
    __mmask32 outside =
        _mm512_cmpge_epu16_mask(above, set_words(DL16_FP16_LIMIT - DL16_F16_NORMAL));
    *rare |= outside & nonzero & ~merged;
    __m512i half = _mm512_maskz_sub_epi16(nonzero, magnitude, set_words(F16_BIAS_STEP));
    half = _mm512_mask_mov_epi16(_mm512_slli_epi16(half, 1), merged, set_words(F16_INFINITE));
    return with_sign(half, codes);
}

static inline __m512i codes_of_bfloats(__m512i words, __mmask32 *rare)
{
    (void)rare;
    __m512i magnitude = _mm512_and_si512(words, set_words(0x7FFF));
    __mmask32 special = _mm512_cmpge_epu16_mask(magnitude, set_words(BF16_INFINITE));
    __m512i code = _mm512_subs_epu16(magnitude, set_words(BF16_BIAS_STEP));
    code = _mm512_slli_epi16(_mm512_min_epu16(code, set_words(BF16_SPAN)), 2);
    code = _mm512_min_epu16(code, set_words(DL16_LARGEST));
    __mmask32 number = _mm512_cmple_epu16_mask(magnitude, set_words(BF16_INFINITE));
    words = _mm512_maskz_mov_epi16(number, words);
    return with_sign(_mm512_mask_mov_epi16(code, special, set_words(DL16_MERGED)), words);
}

static inline __m512i bfloats_of_codes(__m512i codes, __mmask32 *rare)
{
    (void)rare;
    __m512i magnitude = _mm512_and_si512(codes, set_words(0x7FFF));
    __mmask32 nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
    __mmask32 merged = _mm512_cmpeq_epi16_mask(magnitude, set_words(DL16_MERGED));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi16(magnitude, 2), set_words(1));
    __m512i rounded = _mm512_add_epi16(_mm512_add_epi16(magnitude, set_words(1)), odd);
    rounded = _mm512_srli_epi16(rounded, 2);
    rounded = _mm512_maskz_add_epi16(nonzero, rounded, set_words(BF16_BIAS_STEP));
    return with_sign(_mm512_mask_mov_epi16(rounded, merged, set_words(BF16_INFINITE)), codes);
}

// Says whether some of the words are rare ones of CONVERT.
#define WORDS(name, CONVERT)                                                                   \
    static inline __attribute__((always_inline)) bool name(uint16_t *t, const uint16_t *s,     \
                                                           size_t count)                       \
    {                                                                                          \
        __mmask32 rare = 0;                                                                    \
        for (; count >= 32; count -= 32, t += 32, s += 32)                                     \
            _mm512_storeu_si512(t, CONVERT(_mm512_loadu_si512(s), &rare));                     \
        if (count) {                                                                           \
            __mmask32 rest = (1u << count) - 1;                                                \
            __m512i words = _mm512_maskz_loadu_epi16(rest, s);                                 \
            _mm512_mask_storeu_epi16(t, rest, CONVERT(words, &rare));                          \
        }                                                                                      \
        return rare != 0;                                                                      \
    }

CONVERT_WORD_KERNELS(WORDS)

// Every source line is loaded once.
static inline __attribute__((always_inline)) uint64_t narrow_integers(uint32_t *t,
                                                                      const uint64_t *s,
                                                                      size_t count)
{
    const __m512i lowest = _mm512_set1_epi64(INT64_C(1) << 31);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14,
                                           16, 18, 20, 22, 24, 26, 28, 30);
    __m512i beyond = _mm512_setzero_si512();
    for (; count >= 16; count -= 16, s += 16, t += 16) {
        __m512i a = _mm512_loadu_si512(s), b = _mm512_loadu_si512(s + 8);
        __m512i raised = _mm512_add_epi64(a, lowest);
        beyond = _mm512_or_si512(beyond, _mm512_or_si512(raised, _mm512_add_epi64(b, lowest)));
        _mm512_storeu_si512(t, _mm512_permutex2var_epi32(a, even, b));
    }
    return (uint64_t)_mm512_reduce_or_epi64(beyond) | narrow_each(t, s, count);
}

CONVERT_SHARED_LOOPS

static void stream(char *target, int64_t target_step, const char *source, int64_t source_step,
                   size_t rows, size_t count)
{
    for (; rows; rows--, target += target_step, source += source_step)
        for (size_t i = 0; i < count; i += 64)
            _mm512_stream_si512((void *)(target + i), _mm512_loadu_si512(source + i));
}

#define CONVERT_ROW(name, target, source) CONVERT_ROWS(name, CONVERT_BYTES_##target)
#include "tensor/convert.def"

const convert_kernels convert_avx512 = {
    .name = "avx512",
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
