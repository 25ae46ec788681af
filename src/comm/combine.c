// SPDX-License-Identifier: Apache-2.0
#include "comm/combine.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/status.h"
#include "tensor/convert.h"
#include "tensor/opfunc.h"

// Elements a step; two fp32 blocks stay in the first cache.
enum { BLOCK = 1024 };

const char *comm_reduction_name(comm_reduction reduction)
{
    switch (reduction) {
    case COMM_SUM: return "sum";
    case COMM_AVG: return "avg";
    case COMM_MAX: return "max";
    case COMM_MIN: return "min";
    case COMM_PROD: return "prod";
    case COMM_REDUCTION_COUNT: break;
    }
    return "?";
}

static bool is_float(spyre_format format)
{
    return format == SPYRE_FORMAT_SEN169_FP16 || format == SPYRE_FORMAT_IEEE_FP32 ||
           format == SPYRE_FORMAT_IEEE_FP16 || format == SPYRE_FORMAT_BFLOAT16 ||
           format == SPYRE_FORMAT_SEN143_FP8 || format == SPYRE_FORMAT_SEN152_FP8;
}

static bool is_integer(spyre_format format)
{
    return format == SPYRE_FORMAT_SENINT16 || format == SPYRE_FORMAT_IEEE_INT32 ||
           format == SPYRE_FORMAT_IEEE_INT64;
}

static void widen(float *target, const char *source, spyre_format format, size_t count)
{
    size_t bytes = spyre_format_bytes(format);
    if (format == SPYRE_FORMAT_IEEE_FP32)
        memcpy(target, source, count * bytes);
    else if (format == SPYRE_FORMAT_SEN169_FP16)
        convert_dl16_to_float(target, source, count);
    else
        for (size_t i = 0; i < count; i++)
            target[i] = (float)element_load(source + i * bytes, format);
}

static void narrow(char *target, const float *source, spyre_format format, size_t count)
{
    size_t bytes = spyre_format_bytes(format);
    if (format == SPYRE_FORMAT_IEEE_FP32)
        memcpy(target, source, count * bytes);
    else if (format == SPYRE_FORMAT_SEN169_FP16)
        convert_float_to_dl16(target, source, count);
    else
        for (size_t i = 0; i < count; i++)
            element_store(target + i * bytes, format, (double)source[i]);
}

static void combine_floats(comm_reduction reduction, float *sum, const float *next, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float a = sum[i], b = next[i];
        if (reduction == COMM_PROD)
            sum[i] = a * b;
        else if (reduction == COMM_MAX)
            sum[i] = isnan(a) || a >= b ? a : b;
        else if (reduction == COMM_MIN)
            sum[i] = isnan(a) || a <= b ? a : b;
        else
            sum[i] = a + b;
    }
}

static void reduce_floats(comm_reduction reduction, spyre_format format, const void *const *inputs,
                          uint32_t ranks, size_t count, char *target)
{
    float sum[BLOCK], next[BLOCK];
    size_t bytes = spyre_format_bytes(format);
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t part = count - at < BLOCK ? count - at : BLOCK;
        widen(sum, (const char *)inputs[0] + at * bytes, format, part);
        for (uint32_t r = 1; r < ranks; r++) {
            widen(next, (const char *)inputs[r] + at * bytes, format, part);
            combine_floats(reduction, sum, next, part);
        }
        for (size_t i = 0; reduction == COMM_AVG && i < part; i++) sum[i] /= (float)ranks;
        narrow(target + at * bytes, sum, format, part);
    }
}

static int64_t load_integer(const char *source, spyre_format format)
{
    int16_t narrow_value;
    int32_t value;
    int64_t wide;
    if (format == SPYRE_FORMAT_SENINT16) {
        memcpy(&narrow_value, source, sizeof narrow_value);
        return narrow_value;
    }
    if (format == SPYRE_FORMAT_IEEE_INT32) {
        memcpy(&value, source, sizeof value);
        return value;
    }
    memcpy(&wide, source, sizeof wide);
    return wide;
}

static int64_t combine_integers(comm_reduction reduction, int64_t a, int64_t b)
{
    if (reduction == COMM_MAX) return a >= b ? a : b;
    if (reduction == COMM_MIN) return a <= b ? a : b;
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    return (int64_t)(reduction == COMM_PROD ? x * y : x + y);
}

// The low bytes of a 64-bit sum or product are those of the narrower one (little endian).
static void reduce_integers(comm_reduction reduction, spyre_format format,
                            const void *const *inputs, uint32_t ranks, size_t count, char *target)
{
    size_t bytes = spyre_format_bytes(format);
    for (size_t i = 0; i < count; i++) {
        int64_t sum = load_integer((const char *)inputs[0] + i * bytes, format);
        for (uint32_t r = 1; r < ranks; r++)
            sum = combine_integers(reduction, sum,
                                   load_integer((const char *)inputs[r] + i * bytes, format));
        memcpy(target + i * bytes, &sum, bytes);
    }
}

spyre_status comm_combine(comm_reduction reduction, spyre_format format, const void *const *inputs,
                          uint32_t ranks, size_t count, void *target)
{
    if (ranks == 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "reduction of 0 ranks: must be at least 1");
    if ((unsigned)reduction >= COMM_REDUCTION_COUNT)
        return status_new(SPYRE_INVALID_ARGUMENT, "reduction %u: must be below %u",
                          (unsigned)reduction, (unsigned)COMM_REDUCTION_COUNT);
    if (is_float(format)) {
        reduce_floats(reduction, format, inputs, ranks, count, target);
        return NULL;
    }
    if (!is_integer(format) || reduction == COMM_AVG)
        return status_new(SPYRE_UNSUPPORTED, "reduction %s of format %s between cards",
                          comm_reduction_name(reduction), spyre_format_name(format));
    reduce_integers(reduction, format, inputs, ranks, count, target);
    return NULL;
}
