// SPDX-License-Identifier: Apache-2.0
//
// Conversion of runs of elements between formats, as transfers between host and card do it, chosen
// at run time among portable C, AVX2 and AVX-512. All variants give the same bytes.
//
// Rules: values are rounded once (integers to fp32 first), to SEN169_FP16 as dl16_from_host_float,
// from SEN169_FP16 to IEEE_FP16 as dl16_to_host_fp16, to FP8 as numeric.h says, to other floating
// formats to nearest even. Anything to BOOL is (x != 0); BOOL gives 0 or 1. Integers wrap as C
// casts do. Floating values to integers are cut towards zero, then wrap; beyond 64 bits they become
// the 64-bit limit of their sign first; NaN becomes the least integer, of 64 or (targets of up to
// 32) of 32 bits, as on x86. The same format is a copy of bytes.
#ifndef TENSOR_CONVERT_H
#define TENSOR_CONVERT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "spyre/dtype.h"

typedef void convert_kernel(void *target, const void *source, size_t count);

// `rows` runs of `count` elements, each begins a step (bytes) behind the one before.
typedef void convert_rows_kernel(char *target, int64_t target_step, const char *source,
                                 int64_t source_step, size_t rows, size_t count);

// The same; false when the target's integers do not hold some of the values.
typedef bool convert_held_kernel(char *target, int64_t target_step, const char *source,
                                 int64_t source_step, size_t rows, size_t count);

// A conversion looked up once, for many runs.
typedef struct {
    convert_kernel *kernel;         // null: the general path
    convert_rows_kernel *rows;      // of the kernel
    convert_held_kernel *held;      // null: nobody asks
    bool *out_wrapped;              // set where `held` is false
    uint32_t units;                 // that the kernels count in an element: bytes if copied, or 1
    spyre_format target_format;
    spyre_format source_format;
    uint32_t target_bytes;          // an element
    uint32_t source_bytes;
} converter;

// SPYRE_UNSUPPORTED names a pair of formats that has no rule.
SPYRE_MUST_CHECK spyre_status converter_find(spyre_format target_format,
                                             spyre_format source_format, converter *out_converter);

// Makes a converter set *out_wrapped when an int64 that it converts does not fit its int32; other
// pairs of formats leave it alone. Threads need a converter each.
void converter_watch(converter *c, bool *out_wrapped);

// Converts `count` contiguous elements, each buffer aligned to its element. The buffers must not
// overlap.
void converter_run(const converter *c, void *target, const void *source, size_t count);

// The same for `rows` runs, whose first elements are the steps (bytes) apart.
void converter_run_rows(const converter *c, char *target, int64_t target_step, const char *source,
                        int64_t source_step, size_t rows, size_t count);

// The same past the caches, for results that they could not hold. Rows of targets begin and end at
// multiples of 64 bytes. convert_stream_end() before another thread reads them.
void converter_stream_rows(const converter *c, char *target, int64_t target_step,
                           const char *source, int64_t source_step, size_t rows, size_t count);
// `rows` runs of whole lines of 64 bytes, copied past the caches.
void convert_stream_lines(void *target, int64_t target_step, const void *source,
                          int64_t source_step, size_t rows, size_t bytes);
void convert_stream_end(void);

// Fast paths for programs of the card: no saturation, one rounding (see dl16_from_float).
void convert_dl16_to_float(float *target, const void *source, size_t count);
// Of `rows` runs of `count` elements; the steps in bytes.
void convert_dl16_rows_to_float(float *target, int64_t target_step, const void *source,
                                int64_t source_step, size_t rows, size_t count);
void convert_float_to_dl16(void *target, const float *source, size_t count);

// Sums of `count` elements of `row_count` (at least one) rows, as programs of the card add: each
// row to the fp32 sum of those before it, the whole divided by `divisor`, one rounding. `target`
// may be one of the rows.
void convert_dl16_sum(void *target, const void *const *rows, uint32_t row_count, float divisor,
                      size_t count);

// The variant in use: "portable", "avx2" or "avx512". SPYRE_SIMD=<name> restricts the choice; it is
// read once.
const char *convert_variant(void);
bool convert_uses_avx512(void);

#endif
