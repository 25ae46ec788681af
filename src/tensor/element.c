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
    if (magnitude >= DOUBLE_INFINITY) return sign | DL16_MERGED;
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

// Truncates toward zero and saturates; NaN gives 0.
static int64_t integer_from_double(double value, int64_t least, int64_t most)
{
    if (isnan(value)) return 0;
    if (value <= (double)least) return least;
    if (value >= (double)most) return most;
    return (int64_t)value;
}

double element_load(const void *address, spyre_format format)
{
    uint8_t byte;
    uint16_t half;
    uint32_t word;
    uint64_t wide;
    float single;
    switch (format) {
    case SPYRE_FORMAT_SEN169_FP16:
        memcpy(&half, address, sizeof half);
        return (double)dl16_to_float(half);
    case SPYRE_FORMAT_IEEE_FP32:
        memcpy(&single, address, sizeof single);
        return (double)single;
    case SPYRE_FORMAT_IEEE_FP16:
        memcpy(&half, address, sizeof half);
        return (double)fp16_to_float(half);
    case SPYRE_FORMAT_BFLOAT16:
        memcpy(&half, address, sizeof half);
        return (double)bf16_to_float(half);
    case SPYRE_FORMAT_SEN143_FP8:
        memcpy(&byte, address, sizeof byte);
        return (double)fp8_e4m3_to_float(byte);
    case SPYRE_FORMAT_SEN152_FP8:
        memcpy(&byte, address, sizeof byte);
        return (double)fp8_e5m2z_to_float(byte);
    case SPYRE_FORMAT_IEEE_INT32:
        memcpy(&word, address, sizeof word);
        return (double)(int32_t)word;
    case SPYRE_FORMAT_SENUINT32:
        memcpy(&word, address, sizeof word);
        return (double)word;
    case SPYRE_FORMAT_SENINT16:
        memcpy(&half, address, sizeof half);
        return (double)(int16_t)half;
    case SPYRE_FORMAT_SENINT8:
        memcpy(&byte, address, sizeof byte);
        return (double)(int8_t)byte;
    case SPYRE_FORMAT_BOOL:
        memcpy(&byte, address, sizeof byte);
        return byte != 0 ? 1.0 : 0.0;
    case SPYRE_FORMAT_IEEE_INT64:
        memcpy(&wide, address, sizeof wide);
        return (double)(int64_t)wide;
    case SPYRE_FORMAT_INVALID:
    case SPYRE_FORMAT_SEN153_FP9:
    case SPYRE_FORMAT_SENINT2:
    case SPYRE_FORMAT_SENINT4:
    case SPYRE_FORMAT_SENINT24:
    case SPYRE_FORMAT_SENUINT2:
    case SPYRE_FORMAT_SEN18F_FP24:
    case SPYRE_FORMAT_COUNT: break;
    }
    assert(false && "a format whose elements are whole bytes");
    return 0.0;
}

static void store_integer(void *address, double value, size_t bytes, int64_t least, int64_t most)
{
    int64_t integer = integer_from_double(value, least, most);
    uint8_t byte = (uint8_t)integer;
    uint16_t half = (uint16_t)integer;
    uint32_t word = (uint32_t)integer;
    if (bytes == 1) memcpy(address, &byte, 1);
    if (bytes == 2) memcpy(address, &half, 2);
    if (bytes == 4) memcpy(address, &word, 4);
    if (bytes == 8) memcpy(address, &integer, 8);
}

void element_store(void *address, spyre_format format, double value)
{
    uint8_t byte;
    uint16_t half;
    float single;
    switch (format) {
    case SPYRE_FORMAT_SEN169_FP16:
        half = dl16_from_double(value);
        memcpy(address, &half, sizeof half);
        return;
    case SPYRE_FORMAT_IEEE_FP32:
        single = (float)value;
        memcpy(address, &single, sizeof single);
        return;
    case SPYRE_FORMAT_IEEE_FP16:
        half = fp16_from_float(float_rounded_to_odd(value));
        memcpy(address, &half, sizeof half);
        return;
    case SPYRE_FORMAT_BFLOAT16:
        half = bf16_from_float(float_rounded_to_odd(value));
        memcpy(address, &half, sizeof half);
        return;
    case SPYRE_FORMAT_SEN143_FP8:
        byte = fp8_e4m3_from_float(float_rounded_to_odd(value));
        memcpy(address, &byte, sizeof byte);
        return;
    case SPYRE_FORMAT_SEN152_FP8:
        byte = fp8_e5m2z_from_float(float_rounded_to_odd(value));
        memcpy(address, &byte, sizeof byte);
        return;
    case SPYRE_FORMAT_BOOL:
        byte = value != 0.0;
        memcpy(address, &byte, sizeof byte);
        return;
    case SPYRE_FORMAT_IEEE_INT32: store_integer(address, value, 4, INT32_MIN, INT32_MAX); return;
    case SPYRE_FORMAT_SENUINT32: store_integer(address, value, 4, 0, UINT32_MAX); return;
    case SPYRE_FORMAT_SENINT16: store_integer(address, value, 2, INT16_MIN, INT16_MAX); return;
    case SPYRE_FORMAT_SENINT8: store_integer(address, value, 1, INT8_MIN, INT8_MAX); return;
    case SPYRE_FORMAT_IEEE_INT64: store_integer(address, value, 8, INT64_MIN, INT64_MAX); return;
    case SPYRE_FORMAT_INVALID:
    case SPYRE_FORMAT_SEN153_FP9:
    case SPYRE_FORMAT_SENINT2:
    case SPYRE_FORMAT_SENINT4:
    case SPYRE_FORMAT_SENINT24:
    case SPYRE_FORMAT_SENUINT2:
    case SPYRE_FORMAT_SEN18F_FP24:
    case SPYRE_FORMAT_COUNT: break;
    }
    assert(false && "a format whose elements are whole bytes");
}
