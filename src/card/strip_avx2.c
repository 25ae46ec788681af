// SPDX-License-Identifier: Apache-2.0
//
// Eight fp32 lanes, a pair as in strip_avx512.c: even and odd elements.
#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#include <immintrin.h>
#include <string.h>

#include "card/strip_layer.h"
#include "tensor/numeric.h"

typedef __m256 V;
typedef struct {
    V a, b;
} pair;
typedef __m256d D;
enum { LANES = 8 };

static inline __m256i bits_of(V x)
{
    return _mm256_castps_si256(x);
}

static inline __m256i words(unsigned bits)
{
    return _mm256_set1_epi32((int)bits);
}

// --- fp32

UNARY(V, v_set, float, _mm256_set1_ps(x))
BINARY(V, v_max, V, _mm256_max_ps(a, b))
BINARY(V, v_min, V, _mm256_min_ps(a, b))
UNARY(V, v_sqrt, V, _mm256_sqrt_ps(x))
UNARY(V, v_floor, V, _mm256_floor_ps(x))
UNARY(V, v_magnitude, V, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x))
BINARY(V, v_less, V, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
BINARY(V, v_less_equal, V, _mm256_cmp_ps(a, b, _CMP_LE_OQ))
BINARY(V, v_equal, V, _mm256_cmp_ps(a, b, _CMP_EQ_OQ))
BINARY(V, v_unordered, V, _mm256_cmp_ps(a, b, _CMP_UNORD_Q))
PICKER(v_pick, V, V, _mm256_blendv_ps(y, x, m))

// --- fp64

UNARY(D, d_set, double, _mm256_set1_pd(x))
BINARY(D, d_max, D, _mm256_max_pd(a, b))
BINARY(D, d_min, D, _mm256_min_pd(a, b))
UNARY(D, d_sqrt, D, _mm256_sqrt_pd(x))
UNARY(D, d_floor, D, _mm256_floor_pd(x))
UNARY(D, d_magnitude, D, _mm256_andnot_pd(_mm256_set1_pd(-0.0), x))
BINARY(D, d_less, D, _mm256_cmp_pd(a, b, _CMP_LT_OQ))
BINARY(D, d_less_equal, D, _mm256_cmp_pd(a, b, _CMP_LE_OQ))
BINARY(D, d_equal, D, _mm256_cmp_pd(a, b, _CMP_EQ_OQ))
BINARY(D, d_unordered, D, _mm256_cmp_pd(a, b, _CMP_UNORD_Q))
PICKER(d_pick, D, D, _mm256_blendv_pd(y, x, m))

#define v_low(x)  _mm256_cvtps_pd(_mm256_castps256_ps128(x))
#define v_high(x) _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))
#define v_join(low, high) \
    _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low))

// One step back where rounding went away from zero; infinity stays when x is infinite.
static inline __m128 cut_half(D x)
{
    __m128 rounded = _mm256_cvtpd_ps(x);
    D grown = _mm256_cmp_pd(d_magnitude(_mm256_cvtps_pd(rounded)), d_magnitude(x), _CMP_GT_OQ);
    __m256i lanes = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(grown),
                                                _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    __m128i bits = _mm_add_epi32(_mm_castps_si128(rounded), _mm256_castsi256_si128(lanes));
    return _mm_castsi128_ps(bits);
}

#define v_join_cut(low, high) _mm256_set_m128(cut_half(high), cut_half(low))

// --- Elements

// fp32 of codes, given shifted down to bit 14 with their sign in bit 31 and trash elsewhere.
static inline V widen(__m256i shifted)
{
    const unsigned all = DL16_MERGED << DL16_FRACTION_SHIFT;
    __m256i magnitude = _mm256_and_si256(shifted, words(all));
    __m256i sign = _mm256_and_si256(shifted, words(0x80000000u));
    __m256i zero = _mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    __m256i merged = _mm256_cmpeq_epi32(magnitude, words(all));
    __m256i bits = _mm256_add_epi32(magnitude, words(DL16_EXPONENT_OFFSET));
    bits = _mm256_blendv_epi8(_mm256_andnot_si256(zero, bits), words(0x7F800000u), merged);
    return _mm256_castsi256_ps(_mm256_or_si256(bits, sign));
}

static inline pair pair_load_dl16(const uint8_t *at)
{
    __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)at);
    __m256i even = _mm256_slli_epi32(codes, 16);
    return (pair){widen(_mm256_srai_epi32(even, 2)), widen(_mm256_srai_epi32(codes, 2))};
}

static inline V v_repeat_dl16(const uint8_t *at)
{
    int16_t code;
    memcpy(&code, at, sizeof code);
    return widen(_mm256_srai_epi32(_mm256_set1_epi16(code), 2));
}

// Codes in the high halves of the lanes, trash in the low ones; as dl16_from_float.
static inline __m256i narrow(V x)
{
    __m256i bits = _mm256_and_si256(bits_of(x), words(0x7FFFFFFFu));
    bits = _mm256_max_epu32(bits, words(DL16_EXPONENT_OFFSET));
    bits = _mm256_min_epu32(
        bits, words((DL16_MERGED << DL16_FRACTION_SHIFT) + DL16_EXPONENT_OFFSET));
    bits = _mm256_sub_epi32(bits, words(DL16_EXPONENT_OFFSET - (1u << 13)));
    bits = _mm256_slli_epi32(bits, 16 - DL16_FRACTION_SHIFT);
    return _mm256_or_si256(_mm256_and_si256(bits, words(0x7FFFFFFFu)),
                           _mm256_and_si256(bits_of(x), words(0x80000000u)));
}

static inline void pair_store_dl16(uint8_t *to, pair x)
{
    __m256i even = _mm256_srli_epi32(narrow(x.a), 16);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_blend_epi16(even, narrow(x.b), 0xAA));
}

static inline V v_quieten(V x)
{
    V quiet = _mm256_or_ps(x, _mm256_castsi256_ps(words(0x00400000u)));
    return v_pick(v_unordered(x, x), quiet, x);
}

static inline V load_floats(const uint8_t *at)
{
    return _mm256_loadu_ps((const float *)(const void *)at);
}

static inline pair pair_load_f32(const uint8_t *at)
{
    V low = load_floats(at), high = load_floats(at + 32);
    V near = _mm256_permute2f128_ps(low, high, 0x20), far = _mm256_permute2f128_ps(low, high, 0x31);
    return (pair){_mm256_shuffle_ps(near, far, 0x88), _mm256_shuffle_ps(near, far, 0xDD)};
}

static inline void pair_store_f32(uint8_t *to, pair x)
{
    V near = _mm256_unpacklo_ps(x.a, x.b), far = _mm256_unpackhi_ps(x.a, x.b);
    float *out = (float *)(void *)to;
    _mm256_storeu_ps(out, _mm256_permute2f128_ps(near, far, 0x20));
    _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(near, far, 0x31));
}

static inline size_t table_pairs(uint8_t *to, const uint8_t *from, const uint16_t *table,
                                 size_t count)
{
    (void)to, (void)from, (void)table, (void)count;
    return 0;
}

#include "card/strip_body.h"

const strip_table strip_avx2 = STRIP_ENTRIES;
#endif
