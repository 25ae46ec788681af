// SPDX-License-Identifier: Apache-2.0
//
// One element from and to memory, in fp64 as register form. A store rounds exactly once, so nothing
// here goes through fp32 on the way to a narrower format without rounding to odd first.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "tensor/numeric.h"
#include "tensor/opfunc.h"

enum { DOUBLE_TO_DL16_SHIFT = 52 - 9 };
#define DOUBLE_SIGN 0x8000000000000000ULL
#define DOUBLE_INFINITY 0x7FF0000000000000ULL
#define DOUBLE_DL16_OFFSET ((uint64_t)(1023 - 31) << 52)

static uint16_t dl16_from_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t magnitude = bits & ~DOUBLE_SIGN;
    uint16_t sign = (uint16_t)(bits >> 48 & DL16_SIGN);
    if (magnitude > DOUBLE_INFINITY) return DL16_MERGED;
    if (magnitude == DOUBLE_INFINITY) return sign | DL16_MERGED;
    if (magnitude <= DOUBLE_DL16_OFFSET) return sign;
    uint64_t half = 1ULL << (DOUBLE_TO_DL16_SHIFT - 1);
    uint64_t code = (magnitude - DOUBLE_DL16_OFFSET + half) >> DOUBLE_TO_DL16_SHIFT;
    return sign | (uint16_t)(code < DL16_MERGED ? code : DL16_MERGED);
}

// The float next to `value` toward zero, its last bit set when it is not exact. A later rounding to
// a format of at most 22 bits then gives what one rounding of `value` would give.
static float float_rounded_to_odd(double value)
{
    float nearest = (float)value;
    if ((double)nearest == value || isnan(value)) return nearest;
    uint32_t bits = float_bits(nearest);
    if (fabs((double)nearest) > fabs(value)) bits--;
    return float_from_bits(bits | 1u);
}

// Truncates toward zero and saturates; NaN gives the least integer, as on x86.
static int64_t integer_from_double(double value, int64_t least, int64_t most)
{
    if (!(value > (double)least)) return least;
    if (value >= (double)most) return most;
    return (int64_t)value;
}

// Cases of the formats that have elements of whole bytes; the others are broken invariants.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

#define LOAD(format, T, expression)       \
    case SPYRE_FORMAT_##format: {         \
        T x;                              \
        memcpy(&x, address, sizeof x);    \
        return (double)(expression);      \
    }

double element_load(const void *address, spyre_format format)
{
    switch (format) {
    LOAD(SEN169_FP16, uint16_t, dl16_to_float(x))
    LOAD(IEEE_FP32, float, x)
    LOAD(IEEE_FP16, uint16_t, fp16_to_float(x))
    LOAD(BFLOAT16, uint16_t, bf16_to_float(x))
    LOAD(SEN143_FP8, uint8_t, fp8_e4m3_to_float(x))
    LOAD(SEN152_FP8, uint8_t, fp8_e5m2z_to_float(x))
    LOAD(IEEE_INT64, int64_t, x)
    LOAD(IEEE_INT32, int32_t, x)
    LOAD(SENUINT32, uint32_t, x)
    LOAD(SENINT16, int16_t, x)
    LOAD(SENINT8, int8_t, x)
    LOAD(BOOL, uint8_t, x != 0)
    default: break;
    }
    assert(false && "a format whose elements are whole bytes");
    return 0.0;
}

#define STORE(format, T, expression)      \
    case SPYRE_FORMAT_##format: {         \
        const T x = (T)(expression);      \
        memcpy(address, &x, sizeof x);    \
        return;                           \
    }

void element_store(void *address, spyre_format format, double value)
{
    switch (format) {
    STORE(SEN169_FP16, uint16_t, dl16_from_double(value))
    STORE(IEEE_FP32, float, value)
    STORE(IEEE_FP16, uint16_t, fp16_from_float(float_rounded_to_odd(value)))
    STORE(BFLOAT16, uint16_t, bf16_from_float(float_rounded_to_odd(value)))
    STORE(SEN143_FP8, uint8_t, fp8_e4m3_from_float(float_rounded_to_odd(value)))
    STORE(SEN152_FP8, uint8_t, fp8_e5m2z_from_float(float_rounded_to_odd(value)))
    STORE(IEEE_INT64, int64_t, integer_from_double(value, INT64_MIN, INT64_MAX))
    STORE(IEEE_INT32, int32_t, integer_from_double(value, INT32_MIN, INT32_MAX))
    STORE(SENUINT32, uint32_t, integer_from_double(value, 0, UINT32_MAX))
    STORE(SENINT16, int16_t, integer_from_double(value, INT16_MIN, INT16_MAX))
    STORE(SENINT8, int8_t, integer_from_double(value, INT8_MIN, INT8_MAX))
    STORE(BOOL, uint8_t, value != 0.0)
    default: break;
    }
    assert(false && "a format whose elements are whole bytes");
}

#pragma GCC diagnostic pop
