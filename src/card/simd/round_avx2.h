// SPDX-License-Identifier: Apache-2.0
//
// fp32 registers to SEN169_FP16 codes.
#ifndef CARD_ROUND_AVX2_H
#define CARD_ROUND_AVX2_H

#include <immintrin.h>
#include <math.h>

#include "tensor/numeric.h"

// As dl16_from_float, with saturation still to come; negative where zero is due.
static inline __m256i round_magnitude(__m256 x)
{
    const __m256i offset = _mm256_set1_epi32((int)(DL16_EXPONENT_OFFSET - (1u << 13)));
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF));
    return _mm256_srai_epi32(_mm256_sub_epi32(bits, offset), DL16_FRACTION_SHIFT);
}

// Infinity for NaN, whose sign is the host's choice: of a NaN the instruction gives the second.
static inline __m256 infinite_for_nan(__m256 x)
{
    return _mm256_min_ps(x, _mm256_set1_ps(INFINITY));
}

// Codes in turns of four from a and from b.
static inline __m256i round_in_turns(__m256 a, __m256 b)
{
    const __m256i merged = _mm256_set1_epi16(DL16_MERGED);
    a = infinite_for_nan(a);
    b = infinite_for_nan(b);
    __m256i codes = _mm256_packus_epi32(round_magnitude(a), round_magnitude(b));
    __m256i signs = _mm256_packs_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
    codes = _mm256_min_epu16(codes, merged);
    return _mm256_or_si256(codes, _mm256_andnot_si256(merged, signs));
}

#endif
