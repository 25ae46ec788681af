// SPDX-License-Identifier: Apache-2.0
//
// fp32 registers of ROUND_BITS bits, 256 or 512, to SEN169_FP16 codes.
#ifndef CARD_ROUND_CODES_H
#define CARD_ROUND_CODES_H

#include <immintrin.h>
#include <math.h>

#include "tensor/numeric.h"

#if ROUND_BITS == 512
#define ROUND(name) _mm512_##name
#define ROUND_ALL(name) _mm512_##name##_si512
typedef __m512 round_floats;
typedef __m512i round_words;
#else
#define ROUND(name) _mm256_##name
#define ROUND_ALL(name) _mm256_##name##_si256
typedef __m256 round_floats;
typedef __m256i round_words;
#endif

// As dl16_from_float, with saturation still to come; negative where zero is due.
static inline round_words round_magnitude(round_floats x)
{
    const round_words offset = ROUND(set1_epi32)((int)(DL16_EXPONENT_OFFSET - (1u << 13)));
    round_words bits = ROUND_ALL(and)(ROUND_ALL(castps)(x), ROUND(set1_epi32)(0x7FFFFFFF));
    return ROUND(srai_epi32)(ROUND(sub_epi32)(bits, offset), DL16_FRACTION_SHIFT);
}

// Infinity for NaN, whose sign is the host's choice: of a NaN the instruction gives the second.
static inline round_floats infinite_for_nan(round_floats x)
{
    return ROUND(min_ps)(x, ROUND(set1_ps)(INFINITY));
}

// Codes in turns of four from a and from b.
static inline round_words round_in_turns(round_floats a, round_floats b)
{
    const round_words merged = ROUND(set1_epi16)(DL16_MERGED);
    a = infinite_for_nan(a);
    b = infinite_for_nan(b);
    round_words codes = ROUND(packus_epi32)(round_magnitude(a), round_magnitude(b));
    round_words signs = ROUND(packs_epi32)(ROUND_ALL(castps)(a), ROUND_ALL(castps)(b));
    codes = ROUND(min_epu16)(codes, merged);
#if ROUND_BITS == 512
    // 0xD8: the second where the third is set, else the first.
    return _mm512_ternarylogic_epi32(signs, codes, merged, 0xD8);
#else
    return ROUND_ALL(or)(codes, ROUND_ALL(andnot)(merged, signs));
#endif
}

#endif
