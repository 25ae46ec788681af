// SPDX-License-Identifier: Apache-2.0
//
// Functions of two fp32 values that are rounded to SEN169_FP16, in fp32 registers, on hosts with
// AVX-512. A polynomial gives a result and a bound of its error; where both ends round to the same
// code, it is that of the fp64 formula. Other lanes, some of a thousand, and those of signs and
// sizes that the polynomials are not for, are computed by the formula (as in tensor/exp_f32.c).
// Rests and whole quotients are exact.
#include "card/simd/narrow_formula.h"

#include <assert.h>
#include <string.h>

#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")
#define ROUND_BITS 512
#include "card/simd/round_codes.h"
#include "tensor/convert.h"
#include "tensor/numeric.h"

enum { LANES = 16, MOST_OPEN = 4 };

#define SET(x)          _mm512_set1_ps(x)
#define WORDS(x)        _mm512_set1_epi32((int)(x))
#define FMA(a, b, sum)  _mm512_fmadd_ps(a, b, sum)
#define FNMA(a, b, sum) _mm512_fnmadd_ps(a, b, sum)
#define BITS(x)         _mm512_castps_si512(x)
#define FLOATS(x)       _mm512_castsi512_ps(x)

// A result, how far it may be off (0: exact, its sign too), and the lanes that both hold for.
typedef struct {
    __m512 value, error;
    __mmask16 good;
} estimate;

// --- Elementary functions

// 2^t where that is normal, with an error below 2^-22 of it: 2^n * 2^f with n = round(t), and the
// series of e^(f ln 2) up to f^7.
static inline __m512 exp2_lanes(__m512 t)
{
    const __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_sub_ps(t, n);
    __m512 p = FMA(SET(0x1.ffcbfcp-17f), f, SET(0x1.430912p-13f));
    p = FMA(p, f, SET(0x1.5d87fep-10f));
    p = FMA(p, f, SET(0x1.3b2ab6p-7f));
    p = FMA(p, f, SET(0x1.c6b08ep-5f));
    p = FMA(p, f, SET(0x1.ebfbep-3f));
    p = FMA(p, f, SET(0x1.62e43p-1f));
    return _mm512_scalef_ps(FMA(p, f, SET(1.0f)), n);
}

// log m for m = 1 + d within sqrt(1/2) and sqrt(2): 2 atanh s with s = d / (2 + d), its series up
// to s^9; with an error below 2^-22 of it.
static inline __m512 log_near_one(__m512 d)
{
    const __m512 s = _mm512_div_ps(d, _mm512_add_ps(d, SET(2.0f))), s2 = _mm512_mul_ps(s, s);
    __m512 p = FMA(SET(2.0f / 9.0f), s2, SET(2.0f / 7.0f));
    p = FMA(p, s2, SET(2.0f / 5.0f));
    p = FMA(p, s2, SET(2.0f / 3.0f));
    const __m512 series = _mm512_mul_ps(_mm512_mul_ps(p, s2), s);
    return FMA(s, SET(2.0f), series);
}

// log m and e of x = 2^e m, which is normal and above zero, with m as log_near_one() wants it.
static inline __m512 log_parts(__m512 x, __m512 *e)
{
    const __m512i above = _mm512_sub_epi32(BITS(x), WORDS(0x3F3504F3));
    const __m512i turns = _mm512_srai_epi32(above, 23);
    const __m512 m = FLOATS(_mm512_sub_epi32(BITS(x), _mm512_slli_epi32(turns, 23)));
    *e = _mm512_cvtepi32_ps(turns);
    return log_near_one(_mm512_sub_ps(m, SET(1.0f)));
}

static inline __mmask16 is_between(__m512 x, float low, float high)
{
    return _mm512_cmp_ps_mask(x, SET(low), _CMP_GT_OQ) &
           _mm512_cmp_ps_mask(x, SET(high), _CMP_LT_OQ);
}

static inline __mmask16 is_negative(__m512 x)
{
    return _mm512_movepi32_mask(BITS(x));
}

static inline __m512 with_sign_of(__m512 size, __m512 sign)
{
    return FLOATS(_mm512_or_epi32(BITS(size), _mm512_and_epi32(BITS(sign), WORDS(1u << 31))));
}

// --- Opfuncs

// x^y = 2^(y (e + log2 m)) for x = 2^e m above zero. y e is exact in two parts.
static inline estimate pow_lanes(__m512 x, __m512 y)
{
    __m512 e;
    const __m512 logarithm = log_parts(x, &e);
    const __m512 part = _mm512_mul_ps(logarithm, SET(0x1.715476p0f));
    const __m512 whole = _mm512_mul_ps(y, e), lost = _mm512_fmsub_ps(y, e, whole);
    const __m512 rest = FMA(y, part, lost), t = _mm512_add_ps(whole, rest);
    const __m512 value = exp2_lanes(t);
    const __m512 sizes = _mm512_add_ps(_mm512_abs_ps(whole), _mm512_abs_ps(rest));
    const __m512 relative = FMA(sizes, SET(0x1p-21f), SET(0x1p-21f));
    return (estimate){value, _mm512_mul_ps(value, relative),
                      is_between(x, 0x1p-40f, 0x1p40f) & is_between(t, -31.0f, 31.0f)};
}

// x (e log 2 + log m) for y = 2^e m; both parts have errors of 2^-22 of them, and log m is at most
// half of what it is added to. Zero for an x of zero, whatever its sign.
static inline estimate xlogy_lanes(__m512 x, __m512 y)
{
    __m512 e;
    const __m512 near = log_parts(y, &e);
    const __m512 logarithm = FMA(e, SET(0x1.62e43p-1f), near);
    const __m512 value = _mm512_mul_ps(x, logarithm);
    const __mmask16 is_some = _mm512_cmp_ps_mask(x, SET(0.0f), _CMP_NEQ_UQ);
    return (estimate){_mm512_maskz_mov_ps(is_some, value),
                      _mm512_mul_ps(_mm512_abs_ps(value), SET(0x1p-20f)),
                      is_between(y, 0x1p-40f, 0x1p40f) & is_between(x, -0x1p40f, 0x1p40f)};
}

// max + log(1 + u), u = e^-|x - y| of up to 1. From log 2 / 2 on, 1 + u is twice a number below 1.
static inline estimate logaddexp_lanes(__m512 x, __m512 y)
{
    const __m512 most = _mm512_max_ps(x, y);
    const __m512 apart = _mm512_min_ps(_mm512_abs_ps(_mm512_sub_ps(x, y)), SET(80.0f));
    const __m512 u = exp2_lanes(_mm512_mul_ps(apart, SET(-0x1.715476p0f)));
    const __mmask16 large = _mm512_cmp_ps_mask(u, SET(0x1.a8279ap-2f), _CMP_GT_OQ);
    const __m512 half = _mm512_mul_ps(_mm512_sub_ps(u, SET(1.0f)), SET(0.5f));
    const __m512 near = log_near_one(_mm512_mask_blend_ps(large, u, half));
    const __m512 sum = _mm512_mask_add_ps(near, large, near, SET(0x1.62e43p-1f));
    const __m512 value = _mm512_add_ps(most, sum);
    const __m512 size = _mm512_abs_ps(value);
    const __m512 error = FMA(size, SET(0x1p-22f), _mm512_mul_ps(sum, SET(0x1p-19f)));
    return (estimate){value, error,
                      _mm512_cmp_ps_mask(x, y, _CMP_ORD_Q) & is_between(most, -0x1p30f, 0x1p30f)};
}

// atan q for |q| <= tan(pi / 8): its series up to q^15, with an error below 2^-22 of it.
static inline __m512 atan_lanes(__m512 q)
{
    const __m512 s = _mm512_mul_ps(q, q);
    __m512 p = FMA(SET(-1.0f / 15.0f), s, SET(1.0f / 13.0f));
    p = FMA(p, s, SET(-1.0f / 11.0f));
    p = FMA(p, s, SET(1.0f / 9.0f));
    p = FMA(p, s, SET(-1.0f / 7.0f));
    p = FMA(p, s, SET(1.0f / 5.0f));
    p = FMA(p, s, SET(-1.0f / 3.0f));
    return FMA(_mm512_mul_ps(p, s), q, q);
}

// As elementary_atan2: the smaller size is divided by the larger one, which gives an angle of up to
// pi / 4, from tan(pi / 8) on as pi / 4 and what is left of it.
static inline estimate atan2_lanes(__m512 y, __m512 x)
{
    const __m512 right = SET(0x1.921fb6p0f), high = _mm512_abs_ps(y), wide = _mm512_abs_ps(x);
    const __m512 more = _mm512_max_ps(high, wide), less = _mm512_min_ps(high, wide);
    const __mmask16 steep = _mm512_cmp_ps_mask(high, wide, _CMP_GT_OQ);
    const __m512 turn = _mm512_mul_ps(more, SET(0x1.a8279ap-2f));
    const __mmask16 beyond = _mm512_cmp_ps_mask(less, turn, _CMP_GT_OQ);
    const __m512 part = _mm512_mask_sub_ps(less, beyond, less, more);
    const __m512 whole = _mm512_mask_add_ps(more, beyond, less, more);
    const __m512 rest = atan_lanes(_mm512_div_ps(part, whole));
    const __m512 small = _mm512_mask_add_ps(rest, beyond, rest, SET(0x1.921fb6p-1f));
    const __m512 acute = _mm512_mask_sub_ps(small, steep, right, small);
    const __m512 angle = _mm512_mask_sub_ps(acute, is_negative(x), SET(0x1.921fb6p1f), acute);
    return (estimate){with_sign_of(angle, y), _mm512_mul_ps(angle, SET(0x1p-20f)),
                      _mm512_cmp_ps_mask(x, y, _CMP_ORD_Q) & is_between(more, 0x1p-40f, 0x1p40f)};
}

// x = whole y + rest, rest with the sign of x and smaller than y; `beyond`: it has the other sign
// than y, so that Python's division goes one further. A quotient below 2^22 is a whole number too
// large where it was rounded up to one, and its rest then exact as it is when y is added.
typedef struct {
    __m512 whole, rest;
    __mmask16 beyond, good;
} division;

static inline division divide(__m512 x, __m512 y)
{
    const __m512 quotient = _mm512_div_ps(x, y), size = _mm512_abs_ps(y);
    const __m512 near = _mm512_roundscale_ps(quotient, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512 left = FNMA(_mm512_abs_ps(near), size, _mm512_abs_ps(x));
    const __mmask16 over = _mm512_cmp_ps_mask(left, SET(0.0f), _CMP_LT_OQ);
    const __m512 one = with_sign_of(SET(1.0f), quotient);
    const __m512 rest = _mm512_mask_add_ps(left, over, left, size);
    const __mmask16 is_some = _mm512_cmp_ps_mask(rest, SET(0.0f), _CMP_NEQ_OQ);
    return (division){
        _mm512_mask_sub_ps(near, over, near, one), with_sign_of(rest, x),
        is_some & (is_negative(x) ^ is_negative(y)),
        is_between(quotient, -0x1p22f, 0x1p22f) & is_between(size, 0.0f, __builtin_inff())};
}

static inline estimate fmod_lanes(__m512 x, __m512 y)
{
    const division d = divide(x, y);
    return (estimate){d.rest, SET(0.0f), d.good};
}

static inline estimate remainder_lanes(__m512 x, __m512 y)
{
    const division d = divide(x, y);
    const __m512 value = _mm512_mask_add_ps(d.rest, d.beyond, d.rest, y);
    const __m512 lost = _mm512_sub_ps(d.rest, _mm512_sub_ps(value, y)); // of a sum, |rest| < |y|
    const __mmask16 off = _mm512_mask_cmp_ps_mask(d.beyond, lost, SET(0.0f), _CMP_NEQ_UQ);
    const __m512 error = _mm512_mul_ps(_mm512_abs_ps(value), SET(0x1p-23f));
    return (estimate){value, _mm512_maskz_mov_ps(off, error), d.good};
}

static inline estimate floordiv_lanes(__m512 x, __m512 y)
{
    const division d = divide(x, y);
    const __m512 value = _mm512_mask_sub_ps(d.whole, d.beyond, d.whole, SET(1.0f));
    return (estimate){value, SET(0.0f), d.good};
}

// --- Rounding

// Without the sign, as dl16_from_float().
static inline __m512i rounded(__m512 x)
{
    const __m512i codes = _mm512_max_epi32(round_magnitude(x), WORDS(0));
    return _mm512_min_epi32(codes, WORDS(DL16_MERGED));
}

// Codes of the lanes of an estimate that it is certain of. What is not exact is normal, and so both
// of its ends have one sign.
static inline __mmask16 codes_of(const estimate *e, __m256i *codes)
{
    const __m512i low = rounded(_mm512_sub_ps(e->value, e->error));
    const __m512i high = rounded(_mm512_add_ps(e->value, e->error));
    const __m512 size = _mm512_abs_ps(e->value);
    const __m512i sign = _mm512_and_epi32(_mm512_srli_epi32(BITS(e->value), 16), WORDS(DL16_SIGN));
    *codes = _mm512_cvtepi32_epi16(_mm512_or_epi32(low, sign));
    return e->good & _mm512_cmpeq_epi32_mask(low, high) &
           (_mm512_cmp_ps_mask(size, SET(0x1p-30f), _CMP_GE_OQ) |
            _mm512_cmp_ps_mask(e->error, SET(0.0f), _CMP_EQ_OQ));
}

// Of a few lanes one by one; x and y have all lanes.
static void by_formula(opfunc op, uint16_t *codes, const float *x, const float *y, uint32_t open)
{
    double first[LANES], second[LANES], result[LANES];
    const double *const in[] = {first, second, first};
    const bool many = __builtin_popcount(open) > MOST_OPEN;
    for (int n = 0; n < LANES; n++) first[n] = (double)x[n], second[n] = (double)y[n];
    if (many) opfunc_apply_lanes(op, result, in, NULL, LANES);
    for (; open; open &= open - 1) {
        const int n = __builtin_ctz(open);
        if (!many) result[n] = opfunc_apply(op, (double[]){first[n], second[n]}, 2, NULL);
        element_store(&codes[n], SPYRE_FORMAT_SEN169_FP16, result[n]);
    }
}

// Returns the lanes that are open.
#define LANES_FUNCTION(name, lanes)                                                       \
    static uint32_t name(uint16_t *codes, const float *x, const float *y)                 \
    {                                                                                     \
        __m256i found;                                                                    \
        const estimate e = lanes(_mm512_loadu_ps(x), _mm512_loadu_ps(y));                 \
        const __mmask16 certain = codes_of(&e, &found);                                   \
        _mm256_storeu_si256((void *)codes, found);                                        \
        return ~(uint32_t)certain & 0xFFFF;                                               \
    }
LANES_FUNCTION(pow_codes, pow_lanes)
LANES_FUNCTION(logaddexp_codes, logaddexp_lanes)
LANES_FUNCTION(atan2_codes, atan2_lanes)
LANES_FUNCTION(xlogy_codes, xlogy_lanes)
LANES_FUNCTION(fmod_codes, fmod_lanes)
LANES_FUNCTION(remainder_codes, remainder_lanes)
LANES_FUNCTION(floordiv_codes, floordiv_lanes)

typedef uint32_t lanes_function(uint16_t *codes, const float *x, const float *y);

static lanes_function *function_of(opfunc op)
{
    switch ((int)op) {
    case OPFUNC_POW: return pow_codes;
    case OPFUNC_LOGADDEXP: return logaddexp_codes;
    case OPFUNC_ATAN2: return atan2_codes;
    case OPFUNC_XLOGY: return xlogy_codes;
    case OPFUNC_FMOD: return fmod_codes;
    case OPFUNC_REMAINDER: return remainder_codes;
    case OPFUNC_FLOORDIV: return floordiv_codes;
    default: return NULL;
    }
}

bool narrow_has_formula(opfunc op)
{
    return convert_uses_avx512() && function_of(op);
}

// Fewer than all lanes.
static void end_of_lanes(opfunc op, uint16_t *codes, const float *x, const float *y, size_t count)
{
    float in[2][LANES] = {{0}};
    uint16_t out[LANES];
    memcpy(in[0], x, count * sizeof *x);
    memcpy(in[1], y, count * sizeof *y);
    by_formula(op, out, in[0], in[1], 0xFFFF);
    memcpy(codes, out, count * sizeof *codes);
}

void narrow_formula(opfunc op, uint16_t *codes, const float *x, const float *y, size_t count)
{
    lanes_function *const function = function_of(op);
    size_t done = 0;
    for (; done + LANES <= count; done += LANES) {
        const uint32_t open = function(codes + done, x + done, y + done);
        if (open) by_formula(op, codes + done, x + done, y + done, open);
    }
    if (done < count) end_of_lanes(op, codes + done, x + done, y + done, count - done);
}
#else
bool narrow_has_formula(opfunc op)
{
    (void)op;
    return false;
}

void narrow_formula(opfunc op, uint16_t *codes, const float *x, const float *y, size_t count)
{
    (void)op, (void)codes, (void)x, (void)y, (void)count;
    assert(false && "narrow_has_formula()");
}
#endif
