// SPDX-License-Identifier: Apache-2.0
//
// Scalar definitions of the card's number formats; every vectorised conversion is tested against
// these. SEN169_FP16 ("DL16"): 1 sign, 6 exponent bits of bias 31, 9 fraction bits; exponent 0 with
// a fraction is a normal number, there are no subnormals; the largest code of a sign (0x7FFF) is
// one merged NaN-infinity. Source: onnx/onnx-mlir, src/Accelerators/NNPA/Support/Stickify/
// DLF16Conversion.hpp. Rounding is to nearest, ties away from zero. Here the merged code computes
// and reads back as infinity of its sign.
#ifndef TENSOR_NUMERIC_H
#define TENSOR_NUMERIC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    DL16_MERGED = 0x7FFF,
    DL16_LARGEST = 0x7FFE,              // 2^32 * (1 + 510/512)
    DL16_FP16_LIMIT = (31 + 16) << 9,   // 65536
    DL16_SIGN = 0x8000,
    DL16_FRACTION_SHIFT = 14,           // fp32 has 14 more fraction bits
};
#define DL16_EXPONENT_OFFSET ((uint32_t)(127 - 31) << 23)
// fp32 bits from which magnitudes, cut to 9 fraction bits, have the merged code.
#define DL16_MERGED_BITS (((uint32_t)DL16_MERGED << DL16_FRACTION_SHIFT) + DL16_EXPONENT_OFFSET)

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Exact. The merged code gives infinity; 0 and 0x8000 give zero of their sign.
static inline float dl16_to_float(uint16_t code)
{
    uint32_t magnitude = code & 0x7FFFu;
    uint32_t sign = (uint32_t)(code & DL16_SIGN) << 16;
    if (magnitude == 0) return float_from_bits(sign);
    if (magnitude == DL16_MERGED) return float_from_bits(sign | 0x7F800000u);
    return float_from_bits(sign | ((magnitude << DL16_FRACTION_SHIFT) + DL16_EXPONENT_OFFSET));
}

// One rounding, as opfuncs store: finite overflow gives the merged code of its sign; every NaN
// gives the positive one, since the sign of a NaN is the host's choice. Magnitudes that round to
// 2^-31 or below become zero (the pattern of 2^-31 is zero's own).
static inline uint16_t dl16_from_float(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint16_t sign = (uint16_t)(bits >> 16 & DL16_SIGN);
    if (magnitude > 0x7F800000u) return DL16_MERGED;
    if (magnitude == 0x7F800000u) return sign | DL16_MERGED;
    if (magnitude <= DL16_EXPONENT_OFFSET) return sign;
    uint32_t code = (magnitude - DL16_EXPONENT_OFFSET + (1u << 13)) >> DL16_FRACTION_SHIFT;
    return sign | (uint16_t)(code < DL16_MERGED ? code : DL16_MERGED);
}

// True when x + term and x - term, for every x of the format, round to the format as to its
// significand alone: none of them lies between zero and the least value, or beyond the largest, but
// for an infinite x. Beside a term of 2^-19 or more x is a multiple of 2^-29, or so small that the
// sum is no smaller than half the term; half of the last place of the largest value is 2^22.
static inline bool dl16_sums_stay_within(float term)
{
    float magnitude = term < 0.0f ? -term : term;
    return (magnitude == 0.0f) | ((magnitude >= 0x1p-19f) & (magnitude < 0x1p22f));
}

// As the host sends data: finite overflow saturates to the largest finite value; infinity and NaN
// take the merged code.
static inline uint16_t dl16_from_host_float(float value)
{
    uint16_t code = dl16_from_float(value);
    bool finite = (float_bits(value) & 0x7FFFFFFFu) < 0x7F800000u;
    if (finite && (code & 0x7FFF) == DL16_MERGED) code = (uint16_t)(code - 1);
    return code;
}

// IEEE 754 binary16 and bfloat16; conversion from fp32 rounds to nearest even.
float fp16_to_float(uint16_t code);
uint16_t fp16_from_float(float value);
float bf16_to_float(uint16_t code);
uint16_t bf16_from_float(float value);

// As the card sends data back to fp16: one rounding to nearest even, beyond its range infinity;
// only 65536, to which fp16's largest value 65504 (a tie) goes on the way to the card, reads back
// as 65504, so that no finite fp16 value returns as infinity.
uint16_t dl16_to_host_fp16(uint16_t code);

// OCP FP8 E4M3FN (SEN143_FP8 on the card) and E5M2FNUZ (SEN152_FP8). From fp32: nearest even, as
// PyTorch does: beyond the largest value E4M3FN saturates, E5M2FNUZ is NaN; NaN stays NaN.
float fp8_e4m3_to_float(uint8_t code);
uint8_t fp8_e4m3_from_float(float value);
float fp8_e5m2z_to_float(uint8_t code);
uint8_t fp8_e5m2z_from_float(float value);

// What two values make where neither is NaN; else NaN, that of the first before that of the second.
static inline float nan_first(float a, float b, float otherwise)
{
    const float second = b != b ? b : otherwise;
    return a != a ? a : second;
}

#endif
