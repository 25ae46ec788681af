// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of lanes. Contiguous SEN169_FP16, IEEE_FP32 and IEEE_INT32 are vectorised,
// broadcast lanes are read once, everything else goes through the scalar definitions.
#include "card/simd/lanes.h"

#include <string.h>

#include "base/target_clones.h"
#include "tensor/convert.h"
#include "tensor/format.h"
#include "tensor/numeric.h"

// --- Which formats and functions fp32 is enough for

bool lanes_fits_f32(spyre_format format)
{
    return format_fits_fp32(format);
}

// --- fp32

// A load makes signalling NaNs quiet, as the step through fp64 of the definition does.
static float quiet_bits(uint32_t bits)
{
    bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return float_from_bits(nan ? bits | 0x00400000u : bits);
}

BASE_CLONES
static void quieten(float *restrict out, const float *restrict from, size_t count)
{
    for (size_t n = 0; n < count; n++) out[n] = quiet_bits(float_bits(from[n]));
}

#define FROM_INTEGERS(name, integer, number)                                                       \
    BASE_CLONES                                                                                    \
    static void name(number *restrict out, const integer *restrict from, size_t count)             \
    {                                                                                              \
        for (size_t n = 0; n < count; n++) out[n] = (number)from[n];                               \
    }

FROM_INTEGERS(floats_from_int8, int8_t, float)
FROM_INTEGERS(floats_from_int16, int16_t, float)
FROM_INTEGERS(doubles_from_int32, int32_t, double)
FROM_INTEGERS(doubles_from_uint32, uint32_t, double)

// Whether elements of `format` lie side by side, each at a multiple of its size.
static bool is_dense(const void *at, int64_t stride, spyre_format format, spyre_format wanted)
{
    uint32_t bytes = spyre_format_bytes(wanted);
    return format == wanted && stride == bytes && (uintptr_t)at % bytes == 0;
}

static float load_one(const uint8_t *from, spyre_format format)
{
    uint32_t bits;
    uint16_t code;
    switch ((int)format) {
    case SPYRE_FORMAT_SEN169_FP16: memcpy(&code, from, sizeof code); return dl16_to_float(code);
    case SPYRE_FORMAT_IEEE_FP32: memcpy(&bits, from, sizeof bits); return quiet_bits(bits);
    default: return (float)element_load(from, format);
    }
}

// Elements that do not lie side by side become neighbours first, then all are converted at once.
static void load_chunk(float *out, const uint8_t *from, int64_t stride, spyre_format format,
                       size_t count)
{
    union {
        uint16_t code[LANES_CHUNK];
        float value[LANES_CHUNK];
    } dense;
    if (format == SPYRE_FORMAT_SEN169_FP16) {
        for (size_t n = 0; n < count; n++)
            memcpy(&dense.code[n], from + (int64_t)n * stride, sizeof dense.code[n]);
        convert_dl16_to_float(out, dense.code, count);
    } else if (format == SPYRE_FORMAT_IEEE_FP32) {
        for (size_t n = 0; n < count; n++)
            memcpy(&dense.value[n], from + (int64_t)n * stride, sizeof dense.value[n]);
        quieten(out, dense.value, count);
    } else {
        for (size_t n = 0; n < count; n++)
            out[n] = (float)element_load(from + (int64_t)n * stride, format);
    }
}

static void load_scattered(float *out, const uint8_t *from, int64_t stride, spyre_format format,
                           size_t count)
{
    for (size_t now; count > 0; count -= now, out += now, from += (int64_t)now * stride) {
        now = chunk_length((int64_t)count);
        load_chunk(out, from, stride, format, now);
    }
}

static void store_chunk(uint8_t *to, int64_t stride, spyre_format format, const float *values,
                        size_t count)
{
    uint16_t code[LANES_CHUNK];
    if (format == SPYRE_FORMAT_SEN169_FP16) {
        convert_float_to_dl16(code, values, count);
        for (size_t n = 0; n < count; n++)
            memcpy(to + (int64_t)n * stride, &code[n], sizeof code[n]);
    } else if (format == SPYRE_FORMAT_IEEE_FP32) {
        for (size_t n = 0; n < count; n++)
            memcpy(to + (int64_t)n * stride, &values[n], sizeof values[n]);
    } else {
        for (size_t n = 0; n < count; n++)
            element_store(to + (int64_t)n * stride, format, (double)values[n]);
    }
}

static void store_scattered(uint8_t *to, int64_t stride, spyre_format format, const float *values,
                            size_t count)
{
    for (size_t now; count > 0; count -= now, values += now, to += (int64_t)now * stride) {
        now = chunk_length((int64_t)count);
        store_chunk(to, stride, format, values, now);
    }
}

void lanes_load_f32(float *out, const uint8_t *from, int64_t stride, spyre_format format,
                    size_t count)
{
    if (stride == 0) {
        float value = load_one(from, format);
        for (size_t n = 0; n < count; n++) out[n] = value;
    } else if (stride == 2 && format == SPYRE_FORMAT_SEN169_FP16) {
        convert_dl16_to_float(out, from, count);
    } else if (stride == 4 && format == SPYRE_FORMAT_IEEE_FP32 && (uintptr_t)from % 4 == 0) {
        quieten(out, (const float *)(const void *)from, count);
    } else if (is_dense(from, stride, format, SPYRE_FORMAT_SENINT8)) {
        floats_from_int8(out, (const int8_t *)from, count);
    } else if (is_dense(from, stride, format, SPYRE_FORMAT_SENINT16)) {
        floats_from_int16(out, (const int16_t *)(const void *)from, count);
    } else {
        load_scattered(out, from, stride, format, count);
    }
}

void lanes_store_f32(uint8_t *to, int64_t stride, spyre_format format, const float *values,
                     size_t count)
{
    if (stride == 2 && format == SPYRE_FORMAT_SEN169_FP16) {
        convert_float_to_dl16(to, values, count);
    } else if (stride == 4 && format == SPYRE_FORMAT_IEEE_FP32) {
        memcpy(to, values, count * sizeof *values);
    } else {
        store_scattered(to, stride, format, values, count);
    }
}

// --- fp64

BASE_CLONES
static void widen(double *restrict out, const float *restrict from, size_t count)
{
    for (size_t n = 0; n < count; n++) out[n] = (double)from[n];
}

BASE_CLONES
static void narrow(float *restrict out, const double *restrict from, size_t count)
{
    for (size_t n = 0; n < count; n++) out[n] = (float)from[n];
}

// As element_store does, without branches.
BASE_CLONES
static void dl16_from_doubles(uint16_t *restrict out, const double *restrict from, size_t count)
{
    const uint64_t offset = (uint64_t)(1023 - 31) << 52, half = 1ULL << 42;
    for (size_t n = 0; n < count; n++) {
        uint64_t bits;
        memcpy(&bits, &from[n], sizeof bits);
        uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFFULL;
        uint64_t code = (magnitude - offset + half) >> 43;
        code = code < DL16_MERGED ? code : DL16_MERGED;
        code = (int64_t)magnitude <= (int64_t)offset ? 0 : code;
        uint64_t sign = magnitude > 0x7FF0000000000000ULL ? 0 : bits >> 48 & DL16_SIGN;
        out[n] = (uint16_t)(code | sign);
    }
}

// As element_store does: cut, beyond the ends these, NaN the least.
BASE_CLONES
static void int32_from_doubles(int32_t *restrict out, const double *restrict from, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        double raised = from[n] >= (double)INT32_MIN ? from[n] : (double)INT32_MIN;
        out[n] = (int32_t)(raised <= (double)INT32_MAX ? raised : (double)INT32_MAX);
    }
}

void lanes_load_f64(double *out, const uint8_t *from, int64_t stride, spyre_format format,
                    size_t count)
{
    if (is_dense(from, stride, format, SPYRE_FORMAT_IEEE_INT32)) {
        doubles_from_int32(out, (const int32_t *)(const void *)from, count);
    } else if (is_dense(from, stride, format, SPYRE_FORMAT_SENUINT32)) {
        doubles_from_uint32(out, (const uint32_t *)(const void *)from, count);
    } else if (stride == 0) {
        double value = element_load(from, format);
        for (size_t n = 0; n < count; n++) out[n] = value;
    } else if (lanes_fits_f32(format)) {
        float values[LANES_CHUNK];
        for (size_t done = 0, now; done < count; done += now) {
            now = chunk_length((int64_t)(count - done));
            lanes_load_f32(values, from + (int64_t)done * stride, stride, format, now);
            widen(out + done, values, now);
        }
    } else {
        for (size_t n = 0; n < count; n++)
            out[n] = element_load(from + (int64_t)n * stride, format);
    }
}

void lanes_store_f64(uint8_t *to, int64_t stride, spyre_format format, const double *values,
                     size_t count)
{
    if (stride == 2 && format == SPYRE_FORMAT_SEN169_FP16 && (uintptr_t)to % 2 == 0) {
        dl16_from_doubles((uint16_t *)(void *)to, values, count);
    } else if (stride == 4 && format == SPYRE_FORMAT_IEEE_FP32 && (uintptr_t)to % 4 == 0) {
        narrow((float *)(void *)to, values, count);
    } else if (is_dense(to, stride, format, SPYRE_FORMAT_IEEE_INT32)) {
        int32_from_doubles((int32_t *)(void *)to, values, count);
    } else {
        for (size_t n = 0; n < count; n++)
            element_store(to + (int64_t)n * stride, format, values[n]);
    }
}
