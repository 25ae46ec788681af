// SPDX-License-Identifier: Apache-2.0
//
// Choice of the variant, look-up of kernels, and the general path for pairs without one: a block
// of elements is decoded to fp32 or 64-bit integers and encoded from there.
#include "tensor/convert.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/log.h"
#include "base/variable.h"
#include "tensor/convert_kernels.h"
#include "tensor/format.h"
#include "tensor/opfunc.h"

enum { BLOCK = 256, STREAM_BYTES = 4096 };

// --- Variants, best first

static const convert_kernels *const variants[] = {
#if defined(__x86_64__)
    &convert_avx512,
    &convert_avx2,
#endif
    &convert_portable,
};

enum { VARIANT_COUNT = sizeof variants / sizeof *variants };

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports() knows it. Intel SDM volume 2, CPUID, leaf 1.
static bool has_f16c(void)
{
    unsigned int a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

bool convert_can_run(const convert_kernels *kernels)
{
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
    if (kernels == &convert_avx2) return avx2;
    if (kernels == &convert_avx512) {
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    }
#endif
    return kernels == &convert_portable;
}

// The best variant that runs here and is not better than the one that SPYRE_SIMD names.
static const convert_kernels *choose(void)
{
    const char *wanted = variable_text("SPYRE_SIMD");
    size_t first = 0;
    if (wanted) {
        while (first < VARIANT_COUNT && strcmp(variants[first]->name, wanted) != 0) first++;
        if (first == VARIANT_COUNT) {
            log_warn("SPYRE_SIMD=%s: expected portable, avx2 or avx512", wanted);
            first = 0;
        }
    }
    while (!convert_can_run(variants[first])) first++;
    return variants[first];
}

// All threads that choose at once choose the same.
static const convert_kernels *kernels_in_use(void)
{
    static _Atomic(const convert_kernels *) chosen;
    const convert_kernels *kernels = atomic_load_explicit(&chosen, memory_order_acquire);
    if (kernels) return kernels;
    kernels = choose();
    atomic_store_explicit(&chosen, kernels, memory_order_release);
    return kernels;
}

const char *convert_variant(void)
{
    return kernels_in_use()->name;
}

bool convert_uses_avx512(void)
{
#if defined(__x86_64__)
    return kernels_in_use() == &convert_avx512;
#else
    return false;
#endif
}

void convert_dl16_to_float(float *target, const void *source, size_t count)
{
    kernels_in_use()->f32_from_dl16(target, source, count);
}

void convert_dl16_rows_to_float(float *target, int64_t target_step, const void *source,
                                int64_t source_step, size_t rows, size_t count)
{
    kernels_in_use()->f32_from_dl16_rows((char *)target, target_step, source, source_step, rows,
                                         count);
}

void convert_float_to_dl16(void *target, const float *source, size_t count)
{
    kernels_in_use()->dl16_from_f32_once(target, source, count);
}

void convert_dl16_sum(void *target, const void *const *rows, uint32_t row_count, float divisor,
                      size_t count)
{
    kernels_in_use()->dl16_sum(target, rows, row_count, divisor, count);
}

// --- The general path

static bool is_floating(spyre_format format)
{
    return format_class_of(format) == FORMAT_FLOAT;
}

// One case of a format: every element of `source` (type S) through `expression` of x to `out`.
#define EACH(format, out, S, expression)                                    \
    case SPYRE_FORMAT_##format:                                             \
        for (size_t i = 0; i < count; i++) {                                \
            const S x = ((const S *)source)[i];                             \
            (out)[i] = (expression);                                        \
        }                                                                   \
        return;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"  // the others go element by element

static void decode_floating(float *out, spyre_format format, const void *source, size_t count)
{
    switch (format) {
    EACH(SEN169_FP16, out, uint16_t, dl16_to_float(x))
    EACH(IEEE_FP32, out, float, x)
    EACH(IEEE_FP16, out, uint16_t, fp16_to_float(x))
    EACH(BFLOAT16, out, uint16_t, bf16_to_float(x))
    EACH(SEN143_FP8, out, uint8_t, fp8_e4m3_to_float(x))
    EACH(SEN152_FP8, out, uint8_t, fp8_e5m2z_to_float(x))
    default: break;
    }
    size_t bytes = spyre_format_bytes(format);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)element_load((const char *)source + i * bytes, format);
}

static void encode_floating(void *out, spyre_format format, const float *source, size_t count)
{
    switch (format) {
    EACH(SEN169_FP16, (uint16_t *)out, float, dl16_from_host_float(x))
    EACH(IEEE_FP32, (float *)out, float, x)
    EACH(IEEE_FP16, (uint16_t *)out, float, fp16_from_float(x))
    EACH(BFLOAT16, (uint16_t *)out, float, bf16_from_float(x))
    EACH(SEN143_FP8, (uint8_t *)out, float, fp8_e4m3_from_float(x))
    EACH(SEN152_FP8, (uint8_t *)out, float, fp8_e5m2z_from_float(x))
    default: break;
    }
    size_t bytes = spyre_format_bytes(format);
    for (size_t i = 0; i < count; i++)
        element_store((char *)out + i * bytes, format, (double)source[i]);
}

static void decode_integer(int64_t *out, spyre_format format, const void *source, size_t count)
{
    switch (format) {
    EACH(SENINT8, out, int8_t, x)
    EACH(SENINT16, out, int16_t, x)
    EACH(IEEE_INT64, out, int64_t, x)
    EACH(IEEE_INT32, out, int32_t, x)
    EACH(SENUINT32, out, uint32_t, x)
    EACH(BOOL, out, uint8_t, x != 0)
    default: break;
    }
    size_t bytes = spyre_format_bytes(format);
    for (size_t i = 0; i < count; i++)
        out[i] = (int64_t)element_load((const char *)source + i * bytes, format);
}

static void encode_integer(void *out, spyre_format format, const int64_t *source, size_t count)
{
    switch (format) {
    EACH(SENINT8, (uint8_t *)out, int64_t, (uint8_t)x)
    EACH(SENINT16, (uint16_t *)out, int64_t, (uint16_t)x)
    EACH(IEEE_INT64, (int64_t *)out, int64_t, x)
    EACH(IEEE_INT32, (uint32_t *)out, int64_t, (uint32_t)x)
    EACH(SENUINT32, (uint32_t *)out, int64_t, (uint32_t)x)
    EACH(BOOL, (uint8_t *)out, int64_t, x != 0)
    default: break;
    }
    size_t bytes = spyre_format_bytes(format);
    for (size_t i = 0; i < count; i++)
        for (size_t b = 0; b < bytes; b++)
            ((uint8_t *)out)[i * bytes + b] = (uint8_t)((uint64_t)source[i] >> 8 * b);
}

#pragma GCC diagnostic pop

// C leaves the conversion of NaN and of values beyond the type undefined; this is the rule here.
// `least` is what NaN gives.
static int64_t cut(float value, int64_t least)
{
    if (value != value) return least;
    if (value >= 0x1p63f) return INT64_MAX;
    if (value < -0x1p63f) return INT64_MIN;
    return (int64_t)value;
}

static void convert_block(const converter *c, void *target, const void *source, size_t count)
{
    float floating[BLOCK];
    int64_t integers[BLOCK];
    if (is_floating(c->source_format)) {
        decode_floating(floating, c->source_format, source, count);
        if (is_floating(c->target_format)) {
            encode_floating(target, c->target_format, floating, count);
            return;
        }
        bool truth = c->target_format == SPYRE_FORMAT_BOOL;
        int64_t least = c->target_format == SPYRE_FORMAT_IEEE_INT64 ? INT64_MIN : INT32_MIN;
        for (size_t i = 0; i < count; i++)
            integers[i] = truth ? floating[i] != 0.0f : cut(floating[i], least);
        encode_integer(target, c->target_format, integers, count);
        return;
    }
    decode_integer(integers, c->source_format, source, count);
    if (!is_floating(c->target_format)) {
        encode_integer(target, c->target_format, integers, count);
        return;
    }
    for (size_t i = 0; i < count; i++) floating[i] = (float)integers[i];
    encode_floating(target, c->target_format, floating, count);
}

void converter_run(const converter *c, void *target, const void *source, size_t count)
{
    if (c->held) {
        if (!c->held(target, 0, source, 0, 1, count)) *c->out_wrapped = true;
        return;
    }
    if (c->kernel) {
        c->kernel(target, source, count * c->units);
        return;
    }
    char *t = target;
    const char *s = source;
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t now = count - done < BLOCK ? count - done : BLOCK;
        convert_block(c, t + done * c->target_bytes, s + done * c->source_bytes, now);
    }
}

void converter_run_rows(const converter *c, char *target, int64_t target_step, const char *source,
                        int64_t source_step, size_t rows, size_t count)
{
    if (c->held) {
        if (!c->held(target, target_step, source, source_step, rows, count))
            *c->out_wrapped = true;
        return;
    }
    if (c->rows) {
        c->rows(target, target_step, source, source_step, rows, count * c->units);
        return;
    }
    for (; rows; rows--, target += target_step, source += source_step)
        converter_run(c, target, source, count);
}

void converter_stream_rows(const converter *c, char *target, int64_t target_step,
                           const char *source, int64_t source_step, size_t rows, size_t count)
{
    _Alignas(64) char lines[STREAM_BYTES];
    size_t bytes = count * c->target_bytes, fit = bytes ? STREAM_BYTES / bytes : 0;
    if (!fit) converter_run_rows(c, target, target_step, source, source_step, rows, count);
    for (size_t done = 0, now; fit && done < rows; done += now) {
        now = rows - done < fit ? rows - done : fit;
        converter_run_rows(c, lines, (int64_t)bytes, source, source_step, now, count);
        source += (int64_t)now * source_step;
        kernels_in_use()->stream(target, target_step, lines, (int64_t)bytes, now, bytes);
        target += (int64_t)now * target_step;
    }
}

void convert_stream_lines(void *target, int64_t target_step, const void *source,
                          int64_t source_step, size_t rows, size_t bytes)
{
    kernels_in_use()->stream(target, target_step, source, source_step, rows, bytes);
}

void convert_stream_end(void)
{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

// --- Looking up

static void take_kernels(converter *c)
{
    const convert_kernels *kernels = kernels_in_use();
    if (c->target_format == c->source_format && c->target_bytes) {
        c->kernel = kernels->copy;
        c->rows = kernels->copy_rows;
        c->units = c->target_bytes;
        return;
    }
    c->units = 1;
#define CONVERT_ROW(name, target, source)                                                  \
    if (c->target_format == SPYRE_FORMAT_##target && c->source_format == SPYRE_FORMAT_##source) { \
        c->kernel = kernels->name;                                                         \
        c->rows = kernels->name##_rows;                                                    \
    }
#include "tensor/convert.def"
}

spyre_status converter_find(spyre_format target_format, spyre_format source_format,
                            converter *out_converter)
{
    *out_converter = (converter){
        .target_format = target_format,
        .source_format = source_format,
        .target_bytes = spyre_format_bytes(target_format),
        .source_bytes = spyre_format_bytes(source_format),
    };
    take_kernels(out_converter);
    if (out_converter->kernel) return NULL;
    if (target_format != source_format && format_class_of(target_format) != FORMAT_NONE &&
        format_class_of(source_format) != FORMAT_NONE)
        return NULL;
    return status_new(SPYRE_UNSUPPORTED, "no conversion from %s to %s",
                      spyre_format_name(source_format), spyre_format_name(target_format));
}

void converter_watch(converter *c, bool *out_wrapped)
{
    if (c->target_format != SPYRE_FORMAT_IEEE_INT32 || c->source_format != SPYRE_FORMAT_IEEE_INT64)
        return;
    c->held = kernels_in_use()->i32_from_i64_held;
    c->out_wrapped = out_wrapped;
}
