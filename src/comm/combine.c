// SPDX-License-Identifier: Apache-2.0
#include "comm/combine.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/status.h"
#include "tensor/convert.h"
#include "tensor/format.h"
#include "tensor/opfunc.h"

// Elements a step; two fp32 blocks stay in the first cache.
enum { BLOCK = 1024 };

const char *spyre_reduction_name(spyre_reduction reduction)
{
    switch (reduction) {
    case SPYRE_REDUCE_SUM: return "sum";
    case SPYRE_REDUCE_AVG: return "avg";
    case SPYRE_REDUCE_MAX: return "max";
    case SPYRE_REDUCE_MIN: return "min";
    case SPYRE_REDUCE_PROD: return "prod";
    case SPYRE_REDUCE_COUNT: break;
    }
    return "?";
}

static bool is_float(spyre_format format)
{
    return format_class_of(format) == FORMAT_FLOAT;
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

// The operation is chosen outside of the loops, which the compiler then vectorises.
static void combine_floats(spyre_reduction reduction, float *sum, const float *next, size_t count)
{
    if (reduction == SPYRE_REDUCE_PROD)
        for (size_t i = 0; i < count; i++) sum[i] *= next[i];
    else if (reduction == SPYRE_REDUCE_MAX)
        for (size_t i = 0; i < count; i++)
            sum[i] = isnan(sum[i]) || sum[i] >= next[i] ? sum[i] : next[i];
    else if (reduction == SPYRE_REDUCE_MIN)
        for (size_t i = 0; i < count; i++)
            sum[i] = isnan(sum[i]) || sum[i] <= next[i] ? sum[i] : next[i];
    else
        for (size_t i = 0; i < count; i++) sum[i] += next[i];
}

// An average divides before the rounding.
static void finish_floats(spyre_reduction reduction, spyre_format format, float *sum,
                          uint32_t ranks, size_t count, char *target)
{
    for (size_t i = 0; reduction == SPYRE_REDUCE_AVG && i < count; i++) sum[i] /= (float)ranks;
    narrow(target, sum, format, count);
}

static void reduce_floats(spyre_reduction reduction, spyre_format format, const void *const *inputs,
                          uint32_t ranks, size_t count, char *target)
{
    float sum[BLOCK], next[BLOCK];
    size_t bytes = spyre_format_bytes(format);
    bool averages = reduction == SPYRE_REDUCE_AVG;
    if (format == SPYRE_FORMAT_SEN169_FP16 && (averages || reduction == SPYRE_REDUCE_SUM)) {
        convert_dl16_sum(target, inputs, ranks, averages ? (float)ranks : 1, count);
        return;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t part = count - at < BLOCK ? count - at : BLOCK;
        widen(sum, (const char *)inputs[0] + at * bytes, format, part);
        for (uint32_t r = 1; r < ranks; r++) {
            widen(next, (const char *)inputs[r] + at * bytes, format, part);
            combine_floats(reduction, sum, next, part);
        }
        finish_floats(reduction, format, sum, ranks, part, target + at * bytes);
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

static int64_t combine_integers(spyre_reduction reduction, int64_t a, int64_t b)
{
    if (reduction == SPYRE_REDUCE_MAX) return a >= b ? a : b;
    if (reduction == SPYRE_REDUCE_MIN) return a <= b ? a : b;
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    return (int64_t)(reduction == SPYRE_REDUCE_PROD ? x * y : x + y);
}

// The low bytes of a 64-bit sum or product are those of the narrower one (little endian).
static void reduce_integers(spyre_reduction reduction, spyre_format format,
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

spyre_status comm_combine_check(spyre_reduction reduction, spyre_format format)
{
    if ((unsigned)reduction >= SPYRE_REDUCE_COUNT)
        return status_new(SPYRE_INVALID_ARGUMENT, "reduction %u: must be below %u",
                          (unsigned)reduction, (unsigned)SPYRE_REDUCE_COUNT);
    if (is_float(format) || (is_integer(format) && reduction != SPYRE_REDUCE_AVG)) return NULL;
    return status_new(SPYRE_UNSUPPORTED, "reduction %s of format %s between cards",
                      spyre_reduction_name(reduction), spyre_format_name(format));
}

void comm_combine(spyre_reduction reduction, spyre_format format, const void *const *inputs,
                  uint32_t ranks, size_t count, void *target)
{
    if (is_float(format)) reduce_floats(reduction, format, inputs, ranks, count, target);
    else reduce_integers(reduction, format, inputs, ranks, count, target);
}

// --- One rank at a time

spyre_format comm_partial_format(spyre_format format)
{
    return is_float(format) ? SPYRE_FORMAT_IEEE_FP32 : format;
}

static void next_floats(spyre_reduction reduction, spyre_format format, const float *partial,
                        const char *input, size_t count, float *target)
{
    float next[BLOCK];
    size_t bytes = spyre_format_bytes(format);
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t part = count - at < BLOCK ? count - at : BLOCK;
        widen(partial ? next : target + at, input + at * bytes, format, part);
        if (!partial) continue;
        if (target != partial) memcpy(target + at, partial + at, part * sizeof *target);
        combine_floats(reduction, target + at, next, part);
    }
}

void comm_combine_next(spyre_reduction reduction, spyre_format format, const void *partial,
                       const void *input, size_t count, void *target)
{
    const void *both[2] = {partial ? partial : input, input};
    if (is_float(format)) next_floats(reduction, format, partial, input, count, target);
    else reduce_integers(reduction, format, both, partial ? 2 : 1, count, target);
}

void comm_combine_finish(spyre_reduction reduction, spyre_format format, const void *partial,
                         uint32_t ranks, size_t count, void *target)
{
    float sum[BLOCK];
    size_t bytes = spyre_format_bytes(format);
    if (!is_float(format) && target != partial) memcpy(target, partial, count * bytes);
    for (size_t at = 0; is_float(format) && at < count; at += BLOCK) {
        size_t part = count - at < BLOCK ? count - at : BLOCK;
        memcpy(sum, (const float *)partial + at, part * sizeof *sum);
        finish_floats(reduction, format, sum, ranks, part, (char *)target + at * bytes);
    }
}
