// SPDX-License-Identifier: Apache-2.0
//
// Eight fp32 lanes.
#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>
#include <math.h>
#include "card/simd/exp_dl16_constants.h"
#define ROUND_BITS 256
#include "card/simd/round_codes.h"
#include "card/simd/simd_layer.h"
#include "tensor/numeric.h"

typedef __m256 V;
typedef struct {
    V a, b;
} pair;
typedef __m256d D;
enum { LANES = 8, BLOCK_ROWS = 1, STEP_ROWS = 4, FEW_ROWS = 8, HAS_EXP = 1 };

static inline __m256i bits_of(V x)
{
    return _mm256_castps_si256(x);
}

static inline __m256i words(unsigned bits)
{
    return _mm256_set1_epi32((int)bits);
}

static inline __m256i halves(short bits)
{
    return _mm256_set1_epi16(bits);
}

// --- Arithmetic

#define FUNCTIONS(f, type, scalar, suffix)                                                    \
    UNARY(type, f##_set, scalar, _mm256_set1_##suffix(x))                                     \
    BINARY(type, f##_max, type, _mm256_max_##suffix(a, b))                                    \
    BINARY(type, f##_min, type, _mm256_min_##suffix(a, b))                                    \
    UNARY(type, f##_sqrt, type, _mm256_sqrt_##suffix(x))                                      \
    UNARY(type, f##_floor, type, _mm256_floor_##suffix(x))                                    \
    UNARY(type, f##_nearest, type, _mm256_round_##suffix(x, NEAREST))                         \
    UNARY(type, f##_magnitude, type, _mm256_andnot_##suffix(_mm256_set1_##suffix(-0.0f), x))  \
    BINARY(type, f##_less, type, _mm256_cmp_##suffix(a, b, _CMP_LT_OQ))                       \
    BINARY(type, f##_less_equal, type, _mm256_cmp_##suffix(a, b, _CMP_LE_OQ))                 \
    BINARY(type, f##_equal, type, _mm256_cmp_##suffix(a, b, _CMP_EQ_OQ))                      \
    BINARY(type, f##_unordered, type, _mm256_cmp_##suffix(a, b, _CMP_UNORD_Q))                \
    PICKER(f##_pick, type, type, _mm256_blendv_##suffix(y, x, m))
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
FUNCTIONS(v, V, float, ps)
FUNCTIONS(d, D, double, pd)

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

#define v_fma(a, b, sum) _mm256_fmadd_ps(a, b, sum)

// --- Elements

// As in simd_avx512.c: `high` gets the upper halves of fp32, `low` the lower ones.
static inline pair pair_load_dl16(const uint8_t *at)
{
    const short offset = DL16_EXPONENT_OFFSET >> 16;
    const short infinite = (short)(0x7F80 - (DL16_MERGED >> 2));
    __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)at);
    __m256i magnitude = _mm256_and_si256(codes, halves(DL16_MERGED));
    __m256i merged = _mm256_cmpeq_epi16(magnitude, halves(DL16_MERGED));
    __m256i raised = _mm256_sign_epi16(halves(offset), magnitude);  // 0 where the magnitude is
    raised = _mm256_blendv_epi8(raised, halves(infinite), merged);
    __m256i high = _mm256_and_si256(_mm256_srai_epi16(codes, 2),
                                    halves((short)(DL16_SIGN | DL16_MERGED >> 2)));
    high = _mm256_add_epi16(high, raised);
    __m256i low = _mm256_andnot_si256(merged, _mm256_slli_epi16(codes, 14));
    return (pair){_mm256_castsi256_ps(_mm256_unpacklo_epi16(low, high)),
                  _mm256_castsi256_ps(_mm256_unpackhi_epi16(low, high))};
}

static inline void pair_store_dl16(uint8_t *to, pair x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, round_in_turns(x.a, x.b));
}

// To the significand of SEN169_FP16, ties away from zero.
static inline V v_round_bits(V x)
{
    __m256i bits = _mm256_add_epi32(bits_of(x), words(1u << 13));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, words(~0u << DL16_FRACTION_SHIFT)));
}

// As dl16_to_float(dl16_from_float(x)).
static inline V v_round_dl16(V x)
{
    __m256i bits = bits_of(v_round_bits(infinite_for_nan(x)));
    __m256i sign = _mm256_and_si256(bits, words(0x80000000u));
    __m256i magnitude = _mm256_xor_si256(bits, sign);
    __m256i some = _mm256_cmpgt_epi32(magnitude, words(DL16_EXPONENT_OFFSET));
    __m256i merged = _mm256_cmpgt_epi32(magnitude, words(DL16_MERGED_BITS - 1));
    magnitude = _mm256_and_si256(magnitude, some);
    magnitude = _mm256_blendv_epi8(magnitude, words(0x7F800000u), merged);
    return _mm256_castsi256_ps(_mm256_or_si256(magnitude, sign));
}

ALWAYS_INLINE void round_pairs(pair *x, size_t count)
{
    for (size_t n = 0; n < count; n++) x[n] = (pair){v_round_dl16(x[n].a), v_round_dl16(x[n].b)};
}

// As in simd_avx512.c.
static inline pair pair_load_f16(const uint8_t *at)
{
    __m256i turns = _mm256_permute4x64_epi64(_mm256_loadu_si256((const __m256i *)(const void *)at),
                                             0xD8);
    const V most = v_set(INFINITY);
    V a = _mm256_cvtph_ps(_mm256_castsi256_si128(turns));
    V b = _mm256_cvtph_ps(_mm256_extracti128_si256(turns, 1));
    return (pair){v_round_bits(v_min(a, most)), v_round_bits(v_min(b, most))};
}

static inline __m128i halves_of(V x)
{
    V rounded = v_round_bits(v_min(x, v_set(INFINITY)));
    __m256i limit = _mm256_cmpeq_epi32(bits_of(v_magnitude(rounded)), words(0x47800000));
    __m256i kept = _mm256_sub_epi32(bits_of(rounded), _mm256_and_si256(limit, words(0x2000)));
    return _mm256_cvtps_ph(_mm256_castsi256_ps(kept),
                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline void pair_store_f16(uint8_t *to, pair x)
{
    __m256i all = _mm256_permute4x64_epi64(_mm256_set_m128i(halves_of(x.b), halves_of(x.a)), 0xD8);
    _mm256_storeu_si256((__m256i *)(void *)to, all);
}

// exp of SEN169_FP16 values, rounded to them.
static inline V v_exp_dl16(V x)
{
    V turns = v_fma(x, v_set(EXP_LOG2E), v_set(EXP_ROUNDER)), f;
    f = _mm256_fmsub_ps(x, v_set(EXP_LOG2E), turns - v_set(EXP_ROUNDER));
    f = v_fma(x, v_set(EXP_LOG2E_REST), f);
    V power = EXP_POLYNOMIAL(f);
    __m256i bits = _mm256_add_epi32(bits_of(power), _mm256_slli_epi32(bits_of(turns), 23));
    V rounded = v_round_bits(_mm256_castsi256_ps(bits));
    rounded = _mm256_and_ps(v_less(v_set(EXP_LEAST), x), rounded);
    return v_pick(v_less(v_set(EXP_MOST), x), v_set(INFINITY), rounded);
}

static inline V v_quieten(V x)
{
    V quiet = _mm256_or_ps(x, _mm256_castsi256_ps(words(0x00400000u)));
    return v_pick(v_unordered(x, x), quiet, x);
}

static inline V v_lanes_behind(V x, int lanes)
{
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_permutevar8x32_ps(x, _mm256_add_epi32(order, words((unsigned)lanes)));
}

static inline V v_load(const uint8_t *at)
{
    return _mm256_loadu_ps((const float *)(const void *)at);
}

static inline void v_store(uint8_t *to, V x)
{
    _mm256_storeu_ps((float *)(void *)to, x);
}

static inline pair pair_load_f32(const uint8_t *at)
{
    V low = v_load(at), high = v_load(at + 32);
    return (pair){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}

static inline void pair_store_f32(uint8_t *to, pair x)
{
    v_store(to, _mm256_permute2f128_ps(x.a, x.b, 0x20));
    v_store(to + 32, _mm256_permute2f128_ps(x.a, x.b, 0x31));
}

static inline pair pair_load_turns(const uint8_t *at)
{
    V low = v_load(at), high = v_load(at + 32);
    V a = _mm256_permute2f128_ps(low, high, 0x20), b = _mm256_permute2f128_ps(low, high, 0x31);
    return (pair){_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD)};
}

static inline void pair_store_turns(uint8_t *to, pair x)
{
    pair turns = {_mm256_unpacklo_ps(x.a, x.b), _mm256_unpackhi_ps(x.a, x.b)};
    pair_store_f32(to, turns);
}

// --- Codes as the upper bits of fp32

static inline pair pair_load_scaled(const uint8_t *at)
{
    const __m256i kept = words(SCALED_BITS);
    __m256i odd = _mm256_loadu_si256((const __m256i *)(const void *)at);
    __m256i even = _mm256_slli_epi32(odd, 16);
    return (pair){_mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(even, 2), kept)),
                  _mm256_castsi256_ps(_mm256_and_si256(_mm256_srai_epi32(odd, 2), kept))};
}

// As in simd_avx512.c.
typedef struct {
    __m256i least, most;
} code_bounds;

static inline code_bounds no_codes(void)
{
    return (code_bounds){halves(-1), halves(0)};
}

static inline void see_codes(code_bounds *seen, const uint8_t *at)
{
    __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)at);
    codes = _mm256_add_epi16(codes, codes);
    seen->least = _mm256_min_epu16(seen->least, _mm256_sub_epi16(codes, halves(2)));
    seen->most = _mm256_max_epu16(seen->most, codes);
}

static inline bool all_scaled(const code_bounds *seen)
{
    const __m256i least = halves(2 * SCALED_LEAST - 2), most = halves((short)(2 * DL16_LARGEST));
    __m256i low = _mm256_cmpeq_epi16(_mm256_max_epu16(seen->least, least), seen->least);
    __m256i high = _mm256_cmpeq_epi16(_mm256_min_epu16(seen->most, most), seen->most);
    return _mm256_movemask_epi8(_mm256_and_si256(low, high)) == -1;
}

#include "card/simd/simd_body.h"

const simd_table simd_avx2 = SIMD_ENTRIES;
#endif
