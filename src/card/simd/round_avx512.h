// SPDX-License-Identifier: Apache-2.0
//
// fp32 registers to SEN169_FP16 codes.
#ifndef CARD_ROUND_AVX512_H
#define CARD_ROUND_AVX512_H

#include <immintrin.h>
#include <math.h>

#include "tensor/numeric.h"

// As dl16_from_float, with saturation still to come; negative where zero is due.
static inline __m512i round_magnitude(__m512 x)
{
    const __m512i offset = _mm512_set1_epi32((int)(DL16_EXPONENT_OFFSET - (1u << 13)));
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
    return _mm512_srai_epi32(_mm512_sub_epi32(bits, offset), DL16_FRACTION_SHIFT);
}

// Infinity for NaN, whose sign is the host's choice: of a NaN the instruction gives the second.
static inline __m512 infinite_for_nan(__m512 x)
{
    return _mm512_min_ps(x, _mm512_set1_ps(INFINITY));
}

// Codes in turns of four from a and from b.
static inline __m512i round_in_turns(__m512 a, __m512 b)
{
    const __m512i merged = _mm512_set1_epi16(DL16_MERGED);
    a = infinite_for_nan(a);
    b = infinite_for_nan(b);
    __m512i codes = _mm512_packus_epi32(round_magnitude(a), round_magnitude(b));
    __m512i signs = _mm512_packs_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
    codes = _mm512_min_epu16(codes, merged);
    // 0xD8: the second where the third is set, else the first.
    return _mm512_ternarylogic_epi32(signs, codes, merged, 0xD8);
}

#endif
