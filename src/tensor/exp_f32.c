// SPDX-License-Identifier: Apache-2.0
//
// e^x in fp32 registers, on hosts with AVX-512: with n = round(32 x / ln 2) and
// r = x - n ln 2 / 32,
//     e^x = 2^floor(n / 32) * 2^(n mod 32 / 32) * (1 + r + r^2 / 2 + r^3 / 6 + r^4 / 24),
// where the power of a 32nd, r and the result have two fp32 parts each. The error is below 2^-35 of
// e^x (the long test goes through every fp32): where both ends of that round to one fp32, e^x in
// fp64 does so, too. The other lanes, one in 2,000, are computed in fp64. (Tang, Table-driven
// implementation of the exponential function, ACM TOMS 15, 1989; Ziv, Fast evaluation of elementary
// mathematical functions, ACM TOMS 17, 1991.)
#include "tensor/exp_f32.h"

#include "spyre/dtype.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")
#include <immintrin.h>
#include <stdint.h>

#include "tensor/convert.h"
#include "tensor/elementary.h"

enum { LANES = 16, PARTS = 32, PART_BITS = 5, SIGNIFICAND_BITS = 23 };

// 2^(n / 32), rounded, and what that leaves.
static const float POWER[PARTS] = {
    0x1p0f, 0x1.059b0ep0f, 0x1.0b5586p0f, 0x1.11301ep0f,
    0x1.172b84p0f, 0x1.1d4874p0f, 0x1.2387a6p0f, 0x1.29e9ep0f,
    0x1.306fep0f, 0x1.371a74p0f, 0x1.3dea64p0f, 0x1.44e086p0f,
    0x1.4bfdaep0f, 0x1.5342b6p0f, 0x1.5ab07ep0f, 0x1.6247ecp0f,
    0x1.6a09e6p0f, 0x1.71f75ep0f, 0x1.7a1148p0f, 0x1.82589ap0f,
    0x1.8ace54p0f, 0x1.93737cp0f, 0x1.9c4918p0f, 0x1.a5503cp0f,
    0x1.ae89fap0f, 0x1.b7f77p0f, 0x1.c199bep0f, 0x1.cb720ep0f,
    0x1.d5818ep0f, 0x1.dfc974p0f, 0x1.ea4afap0f, 0x1.f50766p0f,
};
static const float POWER_REST[PARTS] = {
    0x0p0f, -0x1.9d4f52p-25f, 0x1.9f3122p-25f, -0x1.fdb496p-25f,
    -0x1.c15742p-27f, -0x1.d2e8cap-25f, 0x1.ceac48p-25f, -0x1.5c0424p-25f,
    0x1.4636e2p-25f, -0x1.18aac6p-25f, 0x1.824684p-25f, 0x1.8624b4p-30f,
    -0x1.593abcp-25f, -0x1.2c561p-25f, -0x1.5bd5ecp-27f, -0x1.f8b55p-25f,
    0x1.9fcef4p-26f, 0x1.1d8beep-25f, -0x1.829fdp-25f, -0x1.accc7cp-26f,
    0x1.15506ep-27f, -0x1.e64744p-25f, 0x1.51f848p-27f, -0x1.b83b54p-25f,
    -0x1.a94b14p-26f, -0x1.a09438p-25f, -0x1.3d56b2p-27f, -0x1.8837ccp-27f,
    -0x1.822dbcp-27f, -0x1.908c94p-25f, 0x1.52486cp-27f, -0x1.246ebp-26f,
};

// ln 2 / 32 in two parts.
#define STEP      0x1.62e43p-6f
#define STEP_REST -0x1.05c61p-34f

// Results within are normal; below the lowest all are zero, above the highest all infinity.
#define LEAST_NORMAL (-87.33f)
#define MOST_NORMAL  88.72f
#define ALL_ZERO     (-104.0f)
#define ALL_INFINITE 88.73f

#define SET(x)          _mm512_set1_ps(x)
#define FMA(a, b, sum)  _mm512_fmadd_ps(a, b, sum)
#define FNMA(a, b, sum) _mm512_fnmadd_ps(a, b, sum)

// The lanes that are certain.
static inline __mmask16 exp_lanes(__m512 *result, __m512 x, const __m512 *power,
                                  const __m512 *power_rest)
{
    const __m512 rounder = SET(0x1.8p23f), error = SET(0x1p-35f);
    const __m512 turned = FMA(x, SET(0x1.715476p5f), rounder), n = _mm512_sub_ps(turned, rounder);
    const __m512i turns = _mm512_castps_si512(turned);
    // Exact: STEP has the 24 bits that x and its neighbours of n have.
    const __m512 whole = FNMA(n, SET(STEP), x), r = FNMA(n, SET(STEP_REST), whole);
    const __m512 r_rest = FNMA(n, SET(STEP_REST), _mm512_sub_ps(whole, r));
    const __m512 cubic = FMA(FMA(r, SET(1.0f / 24.0f), SET(1.0f / 6.0f)), r, SET(0.5f));
    const __m512 series = FMA(cubic, _mm512_mul_ps(r, r), r_rest);
    const __m512 high = _mm512_permutex2var_ps(power[0], turns, power[1]);
    const __m512 low = _mm512_permutex2var_ps(power_rest[0], turns, power_rest[1]);
    const __m512 product = _mm512_mul_ps(high, r), lost = _mm512_fmsub_ps(high, r, product);
    const __m512 sum = _mm512_add_ps(high, product);
    const __m512 left = _mm512_sub_ps(product, _mm512_sub_ps(sum, high));
    const __m512 small = FMA(low, r, FMA(high, series, low));
    const __m512 rest = _mm512_add_ps(small, _mm512_add_ps(lost, left));
    const __m512 above = _mm512_add_ps(sum, FMA(sum, error, rest));
    const __m512 below = _mm512_add_ps(sum, FNMA(sum, error, rest));
    const __m512i scale = _mm512_slli_epi32(_mm512_srai_epi32(turns, PART_BITS), SIGNIFICAND_BITS);
    *result = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(above), scale));
    return _mm512_cmp_ps_mask(above, below, _CMP_EQ_OQ) &
           _mm512_cmp_ps_mask(x, SET(LEAST_NORMAL), _CMP_GE_OQ) &
           _mm512_cmp_ps_mask(x, SET(MOST_NORMAL), _CMP_LE_OQ);
}

static inline __m512 settle(__m512 result, __m512 x, __mmask16 certain)
{
    const __mmask16 zero = _mm512_cmp_ps_mask(x, SET(ALL_ZERO), _CMP_LE_OQ);
    const __mmask16 infinite = _mm512_cmp_ps_mask(x, SET(ALL_INFINITE), _CMP_GE_OQ);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512 high = _mm512_mask_mov_ps(result, infinite, SET(INFINITY));
    const __m512 quiet = _mm512_mask_mov_ps(high, nan, SET(NAN));
    const __m512 settled = _mm512_mask_mov_ps(quiet, zero, SET(0.0f));
    float lane[LANES], of[LANES];
    _mm512_storeu_ps(lane, settled);
    _mm512_storeu_ps(of, x);
    const uint32_t known = (uint32_t)(certain | zero | infinite | nan);
    for (uint32_t open = ~known & 0xFFFF; open; open &= open - 1) {
        const int n = __builtin_ctz(open);
        lane[n] = (float)elementary_exp((double)of[n]);
    }
    return _mm512_loadu_ps(lane);
}

static size_t exp_avx512(float *result, const float *x, size_t count)
{
    const __m512 power[] = {_mm512_loadu_ps(POWER), _mm512_loadu_ps(POWER + LANES)};
    const __m512 rest[] = {_mm512_loadu_ps(POWER_REST), _mm512_loadu_ps(POWER_REST + LANES)};
    size_t done = 0;
    for (; done + LANES <= count; done += LANES) {
        const __m512 of = _mm512_loadu_ps(x + done);
        __m512 lanes;
        const __mmask16 certain = exp_lanes(&lanes, of, power, rest);
        if (certain != 0xFFFF) lanes = settle(lanes, of, certain);
        _mm512_storeu_ps(result + done, lanes);
    }
    return done;
}

size_t exp_f32(float *result, const float *x, size_t count)
{
    return convert_uses_avx512() ? exp_avx512(result, x, count) : 0;
}
#else
size_t exp_f32(float *result, const float *x, size_t count)
{
    (void)result, (void)x, (void)count;
    return 0;
}
#endif
