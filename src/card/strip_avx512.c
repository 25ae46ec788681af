// SPDX-License-Identifier: Apache-2.0
//
// Sixteen fp32 lanes. A pair holds the even elements of 32 in one register and the odd ones in the
// other: SEN169_FP16 then unpacks and packs by shifts alone.
#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512")
#include <immintrin.h>
#include <string.h>

#include "card/strip_layer.h"
#include "tensor/numeric.h"

typedef __m512 V;
typedef __m512d D;
typedef struct {
    V a, b;
} pair;
enum { LANES = 16 };

static inline __m512i bits_of(V x)
{
    return _mm512_castps_si512(x);
}

static inline __m512i words(unsigned bits)
{
    return _mm512_set1_epi32((int)bits);
}

// --- fp32

UNARY(V, v_set, float, _mm512_set1_ps(x))
BINARY(V, v_max, V, _mm512_max_ps(a, b))
BINARY(V, v_min, V, _mm512_min_ps(a, b))
UNARY(V, v_sqrt, V, _mm512_sqrt_ps(x))
UNARY(V, v_floor, V, _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
UNARY(V, v_magnitude, V, _mm512_abs_ps(x))
BINARY(__mmask16, v_less, V, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ))
BINARY(__mmask16, v_less_equal, V, _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ))
BINARY(__mmask16, v_equal, V, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ))
BINARY(__mmask16, v_unordered, V, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q))
PICKER(v_pick, __mmask16, V, _mm512_mask_blend_ps(m, y, x))

// --- fp64

UNARY(D, d_set, double, _mm512_set1_pd(x))
BINARY(D, d_max, D, _mm512_max_pd(a, b))
BINARY(D, d_min, D, _mm512_min_pd(a, b))
UNARY(D, d_sqrt, D, _mm512_sqrt_pd(x))
UNARY(D, d_floor, D, _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
UNARY(D, d_magnitude, D, _mm512_abs_pd(x))
BINARY(__mmask8, d_less, D, _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ))
BINARY(__mmask8, d_less_equal, D, _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ))
BINARY(__mmask8, d_equal, D, _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ))
BINARY(__mmask8, d_unordered, D, _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q))
PICKER(d_pick, __mmask8, D, _mm512_mask_blend_pd(m, y, x))

#define v_low(x)  _mm512_cvtps_pd(_mm512_castps512_ps256(x))
#define v_high(x) _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))

static inline V join(__m256 low, __m256 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

#define v_join(low, high) join(_mm512_cvtpd_ps(low), _mm512_cvtpd_ps(high))
#define CUT               (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define v_join_cut(low, high) \
    join(_mm512_cvt_roundpd_ps(low, CUT), _mm512_cvt_roundpd_ps(high, CUT))

// --- Elements

// fp32 of codes, given shifted down to bit 14 with their sign in bit 31 and trash elsewhere.
static inline V widen(__m512i shifted)
{
    const unsigned all = DL16_MERGED << DL16_FRACTION_SHIFT;
    __m512i magnitude = _mm512_and_si512(shifted, words(all));
    __m512i bits = _mm512_and_si512(shifted, words(all | 0x80000000u));
    __mmask16 nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
    __mmask16 merged = _mm512_cmpeq_epi32_mask(magnitude, words(all));
    bits = _mm512_mask_add_epi32(bits, nonzero, bits, words(DL16_EXPONENT_OFFSET));
    bits = _mm512_mask_add_epi32(bits, merged, bits,
                                 words(0x7F800000u - all - DL16_EXPONENT_OFFSET));
    return _mm512_castsi512_ps(bits);
}

static inline pair pair_load_dl16(const uint8_t *at)
{
    __m512i codes = _mm512_loadu_si512(at);
    __m512i even = _mm512_slli_epi32(codes, 16);
    return (pair){widen(_mm512_srai_epi32(even, 2)), widen(_mm512_srai_epi32(codes, 2))};
}

static inline V v_repeat_dl16(const uint8_t *at)
{
    int16_t code;
    memcpy(&code, at, sizeof code);
    return widen(_mm512_srai_epi32(_mm512_set1_epi16(code), 2));
}

// Codes in the high halves of the lanes, trash in the low ones; as dl16_from_float.
static inline __m512i narrow(V x)
{
    const V most = _mm512_castsi512_ps(
        words((DL16_MERGED << DL16_FRACTION_SHIFT) + DL16_EXPONENT_OFFSET));
    const V least = _mm512_castsi512_ps(words(DL16_EXPONENT_OFFSET));
    // 10: smaller magnitude (NaN loses), 11: larger; 00: the sign of x.
    V clamped = _mm512_range_ps(_mm512_range_ps(x, most, 2), least, 3);
    __m512i bits = _mm512_sub_epi32(bits_of(clamped), words(DL16_EXPONENT_OFFSET - (1u << 13)));
    bits = _mm512_slli_epi32(bits, 16 - DL16_FRACTION_SHIFT);
    return _mm512_ternarylogic_epi32(bits_of(x), bits, words(0x80000000u), 0xE4);
}

static inline void pair_store_dl16(uint8_t *to, pair x)
{
    __m512i even = _mm512_srli_epi32(narrow(x.a), 16);
    _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xAAAAAAAAu, even, narrow(x.b)));
}

static inline V v_quieten(V x)
{
    __m512i bits = bits_of(x);
    bits = _mm512_mask_or_epi32(bits, v_unordered(x, x), bits, words(0x00400000u));
    return _mm512_castsi512_ps(bits);
}

static inline pair pair_load_f32(const uint8_t *at)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_or_si512(even, words(1));
    V low = _mm512_loadu_ps(at), high = _mm512_loadu_ps(at + 64);
    return (pair){_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high)};
}

static inline void pair_store_f32(uint8_t *to, pair x)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_or_si512(low, words(8));
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(x.a, low, x.b));
    _mm512_storeu_ps(to + 64, _mm512_permutex2var_ps(x.a, high, x.b));
}

// Entries of the codes in the high halves of the lanes, found by the 32-bit words that hold them;
// in the low halves.
static inline __m512i gather(const uint16_t *table, __m512i codes)
{
    __m512i found = _mm512_i32gather_epi32(_mm512_srli_epi32(codes, 17), table, 4);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(codes, 12), words(16));
    return _mm512_srlv_epi32(found, odd);
}

static inline size_t table_pairs(uint8_t *to, const uint8_t *from, const uint16_t *table,
                                 size_t count)
{
    size_t n = 0;
    for (; n + 32 <= count; n += 32) {
        __m512i codes = _mm512_loadu_si512(from + 2 * n);
        __m512i even = gather(table, _mm512_slli_epi32(codes, 16));
        __m512i odd = _mm512_slli_epi32(gather(table, codes), 16);
        _mm512_storeu_si512(to + 2 * n, _mm512_mask_blend_epi16(0xAAAAAAAAu, even, odd));
    }
    return n;
}

#include "card/strip_body.h"

const strip_table strip_avx512 = STRIP_ENTRIES;
#endif
