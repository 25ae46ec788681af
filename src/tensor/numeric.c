// SPDX-License-Identifier: Apache-2.0
#include "tensor/numeric.h"

#include <math.h>

enum {
    FLOAT_INFINITY = 0x7F800000,
    FLOAT_QUIET = 0x00400000,
};

// --- binary16 and bfloat16

float fp16_to_float(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x8000) << 16;
    uint32_t magnitude = code & 0x7FFFu;
    if (magnitude >= 0x7C00) {
        uint32_t payload = (magnitude & 0x3FF) << 13;
        return float_from_bits(sign | FLOAT_INFINITY | payload | (payload ? FLOAT_QUIET : 0));
    }
    // Subnormals count units of 2^-24. Through an integer, because a denormal operand would be
    // lost when the caller's thread flushes denormals.
    if (magnitude < 0x400)
        return float_from_bits(sign | float_bits((float)magnitude * 0x1p-24f));
    return float_from_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

uint16_t fp16_from_float(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > FLOAT_INFINITY)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
    if (magnitude >= 0x477FF000) return sign | 0x7C00;      // 65520, the tie above 65504, and up
    if (magnitude < 0x38800000) {
        // Below 2^-14: adding 0.5 leaves units of 2^-24 in the fraction, rounded by the addition.
        float shifted = float_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3F000000));
    }
    uint32_t code = magnitude - ((127u - 15u) << 23) + 0xFFF + (magnitude >> 13 & 1);
    return (uint16_t)(sign | code >> 13);
}

float bf16_to_float(uint16_t code)
{
    return float_from_bits((uint32_t)code << 16);
}

uint16_t bf16_from_float(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7FFFFFFF) > FLOAT_INFINITY) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t dl16_to_host_fp16(uint16_t code)
{
    uint16_t result = fp16_from_float(dl16_to_float(code));
    bool image_of_largest = (code & 0x7FFF) == DL16_FP16_LIMIT;
    return image_of_largest ? (uint16_t)(result - 1) : result;
}

// --- FP8

typedef struct {
    int fraction_bits;
    int bias;
    uint32_t largest;           // code of the largest finite magnitude
} small_format;

static const small_format e4m3fn = {.fraction_bits = 3, .bias = 7, .largest = 0x7E};
static const small_format e5m2fnuz = {.fraction_bits = 2, .bias = 16, .largest = 0x7F};

static float small_to_float(const small_format *format, uint32_t magnitude)
{
    uint32_t exponent = magnitude >> format->fraction_bits;
    uint32_t fraction = magnitude & ((1u << format->fraction_bits) - 1);
    if (exponent) fraction |= 1u << format->fraction_bits;
    else exponent = 1;
    return ldexpf((float)fraction, (int)exponent - format->bias - format->fraction_bits);
}

// The code nearest to a finite magnitude or infinity; one above the largest when that is beyond.
// With the exponent held at or above that of the subnormals, codes are (exponent - least) *
// 2^fraction_bits + significand: a significand that rounds up to the next power of two carries into
// the exponent by itself.
static uint32_t small_from_float(const small_format *format, float magnitude)
{
    if (magnitude > 2 * small_to_float(format, format->largest)) return format->largest + 1;
    int least = 1 - format->bias;
    int exponent;
    frexpf(magnitude, &exponent);
    exponent -= 1;
    if (exponent < least || magnitude == 0.0f) exponent = least;
    float significand = rintf(ldexpf(magnitude, format->fraction_bits - exponent));
    uint32_t code = ((uint32_t)(exponent - least) << format->fraction_bits) + (uint32_t)significand;
    return code <= format->largest ? code : format->largest + 1;
}

float fp8_e4m3_to_float(uint8_t code)
{
    uint32_t magnitude = code & 0x7Fu;
    float value = magnitude == 0x7F ? NAN : small_to_float(&e4m3fn, magnitude);
    return code & 0x80 ? -value : value;
}

uint8_t fp8_e4m3_from_float(float value)
{
    uint8_t sign = signbit(value) ? 0x80 : 0;
    if (isnan(value)) return sign | 0x7F;
    uint32_t magnitude = small_from_float(&e4m3fn, fabsf(value));
    return (uint8_t)(sign | (magnitude < e4m3fn.largest ? magnitude : e4m3fn.largest));
}

float fp8_e5m2z_to_float(uint8_t code)
{
    if (code == 0x80) return NAN;
    float value = small_to_float(&e5m2fnuz, code & 0x7Fu);
    return code & 0x80 ? -value : value;
}

// This format has one zero and one NaN, 0x80, where negative zero would be.
uint8_t fp8_e5m2z_from_float(float value)
{
    if (isnan(value)) return 0x80;
    uint32_t magnitude = small_from_float(&e5m2fnuz, fabsf(value));
    if (magnitude == 0) return 0;
    if (magnitude > e5m2fnuz.largest) return 0x80;
    return (uint8_t)((signbit(value) ? 0x80u : 0u) | magnitude);
}
