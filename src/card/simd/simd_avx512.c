// SPDX-License-Identifier: Apache-2.0
//
// Sixteen fp32 lanes.
#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
#include <immintrin.h>
#include <math.h>
// Without optimisation comparisons are macros that convert their masks.
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "card/simd/exp_dl16_constants.h"
#define ROUND_BITS 512
#include "card/simd/round_codes.h"
#include "card/simd/simd_layer.h"
#include "tensor/numeric.h"

typedef __m512 V;
typedef __m512d D;
typedef struct {
    V a, b;
} pair;
enum { LANES = 16, BLOCK_ROWS = 4, STEP_ROWS = 8, FEW_ROWS = 8, HAS_EXP = 1, MOST_PAIRS = 4 };

static inline __m512i bits_of(V x)
{
    return _mm512_castps_si512(x);
}

static inline __m512i words(unsigned bits)
{
    return _mm512_set1_epi32((int)bits);
}

static inline __m512i halves(short bits)
{
    return _mm512_set1_epi16(bits);
}

// --- Arithmetic

#define FUNCTIONS(f, type, scalar, mask, suffix)                                              \
    UNARY(type, f##_set, scalar, _mm512_set1_##suffix(x))                                     \
    BINARY(type, f##_max, type, _mm512_max_##suffix(a, b))                                    \
    BINARY(type, f##_min, type, _mm512_min_##suffix(a, b))                                    \
    UNARY(type, f##_sqrt, type, _mm512_sqrt_##suffix(x))                                      \
    UNARY(type, f##_floor, type, _mm512_roundscale_##suffix(x, FLOOR))                        \
    UNARY(type, f##_nearest, type, _mm512_roundscale_##suffix(x, NEAREST))                    \
    UNARY(type, f##_magnitude, type, _mm512_abs_##suffix(x))                                  \
    BINARY(mask, f##_less, type, _mm512_cmp_##suffix##_mask(a, b, _CMP_LT_OQ))                \
    BINARY(mask, f##_less_equal, type, _mm512_cmp_##suffix##_mask(a, b, _CMP_LE_OQ))          \
    BINARY(mask, f##_equal, type, _mm512_cmp_##suffix##_mask(a, b, _CMP_EQ_OQ))               \
    BINARY(mask, f##_unordered, type, _mm512_cmp_##suffix##_mask(a, b, _CMP_UNORD_Q))         \
    PICKER(f##_pick, mask, type, _mm512_mask_blend_##suffix(m, y, x))
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define FLOOR (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
FUNCTIONS(v, V, float, __mmask16, ps)
FUNCTIONS(d, D, double, __mmask8, pd)

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

#define v_fma(a, b, sum) _mm512_fmadd_ps(a, b, sum)

// --- Elements

// fp32 is SEN169_FP16 with the exponent moved: `high` gets the upper halves, `low` the lower ones.
// Those of zero and of the merged code, all bits set, are in the code itself. Unpacking the two
// gives the lanes; a pair has them in that order.
static inline pair pair_load_dl16(const uint8_t *at)
{
    const __m512i codes = _mm512_loadu_si512(at), next = _mm512_add_epi16(codes, halves(1));
    const __mmask32 ordinary = _mm512_test_epi16_mask(next, halves(DL16_MERGED - 1));
    const __m512i moved = _mm512_and_si512(_mm512_srai_epi16(codes, 2),
                                           halves((short)(DL16_SIGN | DL16_MERGED >> 2)));
    const __m512i rare = _mm512_and_si512(codes, halves((short)(DL16_SIGN | 0x7F80)));
    const __m512i high = _mm512_mask_add_epi16(rare, ordinary, moved,
                                               halves(DL16_EXPONENT_OFFSET >> 16));
    const __m512i low = _mm512_maskz_slli_epi16(ordinary, codes, 14);
    return (pair){_mm512_castsi512_ps(_mm512_unpacklo_epi16(low, high)),
                  _mm512_castsi512_ps(_mm512_unpackhi_epi16(low, high))};
}

static inline void pair_store_dl16(uint8_t *to, pair x)
{
    _mm512_storeu_si512(to, round_in_turns(x.a, x.b));
}

// To the significand of SEN169_FP16, ties away from zero.
static inline V v_round_bits(V x)
{
    __m512i bits = _mm512_add_epi32(bits_of(x), words(1u << 13));
    return _mm512_castsi512_ps(_mm512_and_si512(bits, words(~0u << DL16_FRACTION_SHIFT)));
}

// As dl16_to_float(dl16_from_float(x)).
static inline V v_round_dl16(V x)
{
    __m512i bits = bits_of(v_round_bits(infinite_for_nan(x)));
    __m512i magnitude = _mm512_add_epi32(bits, bits);
    __mmask16 zero = _mm512_cmple_epu32_mask(magnitude, words(2 * DL16_EXPONENT_OFFSET));
    __mmask16 merged = _mm512_cmpge_epu32_mask(magnitude, words(2 * DL16_MERGED_BITS));
    bits = _mm512_mask_and_epi32(bits, zero, bits, words(0x80000000u));
    // 0xEA: the sign of the first, all of the third.
    bits = _mm512_mask_ternarylogic_epi32(bits, merged, words(0x80000000u), words(0x7F800000u),
                                          0xEA);
    return _mm512_castsi512_ps(bits);
}

// At least as large as the span of v_round_bits' results that are values of SEN169_FP16 other than
// zero and infinity, for all others.
static inline __m512i beyond_least(V rounded)
{
    const __m512i least = words(2 * DL16_EXPONENT_OFFSET + (2u << DL16_FRACTION_SHIFT));
    return _mm512_sub_epi32(_mm512_add_epi32(bits_of(rounded), bits_of(rounded)), least);
}

// Zeros, infinity and NaN are rare and cost as much as rounding: one look for all pairs.
ALWAYS_INLINE void round_pairs(pair *x, size_t count)
{
    const uint32_t span = 2 * DL16_MERGED_BITS - 2 * DL16_EXPONENT_OFFSET -
                          (2u << DL16_FRACTION_SHIFT);
    __m512i most = _mm512_setzero_si512();
    pair rounded[MOST_PAIRS];
    for (size_t n = 0; n < count; n++) {
        rounded[n] = (pair){v_round_bits(x[n].a), v_round_bits(x[n].b)};
        most = _mm512_max_epu32(most, beyond_least(rounded[n].a));
        most = _mm512_max_epu32(most, beyond_least(rounded[n].b));
    }
    bool rare = _mm512_cmpge_epu32_mask(most, words(span)) != 0;
    for (size_t n = 0; n < count; n++)
        x[n] = rare ? (pair){v_round_dl16(x[n].a), v_round_dl16(x[n].b)} : rounded[n];
}

// IEEE_FP16, each to the value that its code would have; a pair has them in turns of four.
static inline pair pair_load_f16(const uint8_t *at)
{
    const __m512i turns = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i words = _mm512_permutexvar_epi64(turns, _mm512_loadu_si512(at));
    V a = _mm512_cvtph_ps(_mm512_castsi512_si256(words));
    V b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words, 1));
    return (pair){v_round_bits(infinite_for_nan(a)), v_round_bits(infinite_for_nan(b))};
}

#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline __m512i halves_in_turns(V a, V b)
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    __m512i all = _mm512_castsi256_si512(_mm512_cvtps_ph(a, NEAREST));
    all = _mm512_inserti64x4(all, _mm512_cvtps_ph(b, NEAREST), 1);
    return _mm512_permutexvar_epi64(order, all);
}

// 65504 for 65536, infinity for NaN.
static inline V v_within_f16(V x)
{
    x = infinite_for_nan(x);
    __mmask16 limit = _mm512_cmpeq_epi32_mask(bits_of(v_magnitude(x)), words(0x47800000));
    return _mm512_castsi512_ps(_mm512_mask_sub_epi32(bits_of(x), limit, bits_of(x), words(0x2000)));
}

// As dl16_to_host_fp16(dl16_from_float(x)). What is beyond SEN169_FP16 is beyond IEEE_FP16, too.
static inline void pair_store_f16(uint8_t *to, pair x)
{
    V a = v_round_bits(x.a), b = v_round_bits(x.b);
    __m512i all = halves_in_turns(a, b);
    // Without their sign: infinity and NaN are rare.
    __mmask32 rare = _mm512_cmpge_epu16_mask(_mm512_add_epi16(all, all), halves((short)0xF800));
    if (rare) all = halves_in_turns(v_within_f16(a), v_within_f16(b));
    _mm512_storeu_si512(to, all);
}

// exp of SEN169_FP16 values, rounded to them.
static inline V v_exp_dl16(V x)
{
    V turns = v_fma(x, v_set(EXP_LOG2E), v_set(EXP_ROUNDER)), f;
    f = _mm512_fmsub_ps(x, v_set(EXP_LOG2E), turns - v_set(EXP_ROUNDER));
    f = v_fma(x, v_set(EXP_LOG2E_REST), f);
    V power = EXP_POLYNOMIAL(f);
    __m512i bits = _mm512_add_epi32(bits_of(power), _mm512_slli_epi32(bits_of(turns), 23));
    __mmask16 positive = _mm512_cmp_ps_mask(x, v_set(EXP_LEAST), _CMP_GT_OQ);
    __mmask16 merged = _mm512_cmp_ps_mask(x, v_set(EXP_MOST), _CMP_GT_OQ);
    V rounded = _mm512_maskz_mov_ps(positive, v_round_bits(_mm512_castsi512_ps(bits)));
    return _mm512_mask_mov_ps(rounded, merged, v_set(INFINITY));
}

static inline V v_quieten(V x)
{
    __m512i bits = bits_of(x);
    bits = _mm512_mask_or_epi32(bits, v_unordered(x, x), bits, words(0x00400000u));
    return _mm512_castsi512_ps(bits);
}

static inline V v_lanes_behind(V x, int lanes)
{
    const __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(_mm512_add_epi32(order, words((unsigned)lanes)), x);
}

static inline V v_load(const uint8_t *at)
{
    return _mm512_loadu_ps(at);
}

static inline void v_store(uint8_t *to, V x)
{
    _mm512_storeu_ps(to, x);
}

static inline pair pair_load_f32(const uint8_t *at)
{
    V low = v_load(at), high = v_load(at + 64);
    return (pair){_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xDD)};
}

static inline void pair_store_f32(uint8_t *to, pair x)
{
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
    D a = _mm512_castps_pd(x.a), b = _mm512_castps_pd(x.b);
    v_store(to, _mm512_castpd_ps(_mm512_permutex2var_pd(a, low, b)));
    v_store(to + 64, _mm512_castpd_ps(_mm512_permutex2var_pd(a, high, b)));
}

static inline pair pair_load_turns(const uint8_t *at)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14,       //
                                           16, 18, 20, 22, 24, 26, 28, 30);
    V low = v_load(at), high = v_load(at + 64);
    return (pair){_mm512_permutex2var_ps(low, even, high),
                  _mm512_permutex2var_ps(low, _mm512_add_epi32(even, words(1)), high)};
}

static inline void pair_store_turns(uint8_t *to, pair x)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    v_store(to, _mm512_permutex2var_ps(x.a, low, x.b));
    v_store(to + 64, _mm512_permutex2var_ps(x.a, _mm512_add_epi32(low, words(8)), x.b));
}

// --- Codes as the upper bits of fp32

// Loads that leave out every other code put one into the upper half of each word.
static inline pair pair_load_scaled(const uint8_t *at)
{
    const __m512i kept = words(SCALED_BITS);
    __m512i codes = _mm512_loadu_si512(at), even = _mm512_slli_epi32(codes, 16);
    return (pair){_mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(even, 2), kept)),
                  _mm512_castsi512_ps(_mm512_and_si512(_mm512_srai_epi32(codes, 2), kept))};
}

// Of the codes without their sign, times 2: the least but zero, less 2, and the most.
typedef struct {
    __m512i least, most;
} code_bounds;

static inline code_bounds no_codes(void)
{
    return (code_bounds){halves(-1), halves(0)};
}

static inline void see_codes(code_bounds *seen, const uint8_t *at)
{
    __m512i codes = _mm512_loadu_si512(at);
    codes = _mm512_add_epi16(codes, codes);
    seen->least = _mm512_min_epu16(seen->least, _mm512_sub_epi16(codes, halves(2)));
    seen->most = _mm512_max_epu16(seen->most, codes);
}

static inline bool all_scaled(const code_bounds *seen)
{
    const __m512i least = halves(2 * SCALED_LEAST - 2), most = halves((short)(2 * DL16_LARGEST));
    return !_mm512_cmplt_epu16_mask(seen->least, least) &&
           !_mm512_cmpgt_epu16_mask(seen->most, most);
}

#include "card/simd/fold_rows_avx512.h"
#include "card/simd/simd_body.h"

const simd_table simd_avx512 = SIMD_ENTRIES;
#endif
