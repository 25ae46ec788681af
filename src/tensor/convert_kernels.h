// SPDX-License-Identifier: Apache-2.0
//
// The kernels of one variant, and the loops that all variants share: plain C that the compiler
// vectorises for the instruction set of the including file. Private to src/tensor and its tests.
#ifndef TENSOR_CONVERT_KERNELS_H
#define TENSOR_CONVERT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/convert.h"
#include "tensor/numeric.h"

typedef struct {
    const char *name;
#define CONVERT_ROW(name, target, source) convert_kernel *name;
#include "tensor/convert.def"
    convert_kernel *dl16_from_f32_once;     // as opfuncs store: overflow gives the merged code
} convert_kernels;

extern const convert_kernels convert_portable;
#if defined(__x86_64__)
extern const convert_kernels convert_avx2;
extern const convert_kernels convert_avx512;
#endif

// True when this machine can run the variant.
bool convert_can_run(const convert_kernels *kernels);

// Fills the rows of a variant from functions of the same names in its file.
#define CONVERT_TABLE(variant_name)                                                            \
    {                                                                                          \
        .name = variant_name,                                                                  \
        .dl16_from_f16 = dl16_from_f16,                                                        \
        .f16_from_dl16 = f16_from_dl16,                                                        \
        .dl16_from_bf16 = dl16_from_bf16,                                                      \
        .bf16_from_dl16 = bf16_from_dl16,                                                      \
        .dl16_from_f32 = dl16_from_f32,                                                        \
        .f32_from_dl16 = f32_from_dl16,                                                        \
        .dl16_from_bool = dl16_from_bool,                                                      \
        .bool_from_dl16 = bool_from_dl16,                                                      \
        .i32_from_i64 = i32_from_i64,                                                          \
        .i64_from_i32 = i64_from_i32,                                                          \
        .u32_from_u8 = u32_from_u8,                                                            \
        .u8_from_u32 = u8_from_u32,                                                            \
        .dl16_from_f32_once = dl16_from_f32_once,                                              \
    }

enum { DL16_ONE = 31 << 9 };

// static void name(void *, const void *, size_t) with t[i] = expression of s[i].
#define CONVERT_LOOP(name, target_type, source_type, expression)                               \
    static void name(void *target, const void *source, size_t count)                           \
    {                                                                                          \
        target_type *t = target;                                                               \
        const source_type *s = source;                                                         \
        for (size_t i = 0; i < count; i++) {                                                   \
            source_type x = s[i];                                                              \
            t[i] = (target_type)(expression);                                                  \
        }                                                                                      \
    }

#define CONVERT_SHARED_LOOPS                                                                   \
    CONVERT_LOOP(dl16_from_bool, uint16_t, uint8_t, x ? DL16_ONE : 0)                          \
    CONVERT_LOOP(bool_from_dl16, uint8_t, uint16_t, (x & 0x7FFF) != 0)                         \
    CONVERT_LOOP(i32_from_i64, uint32_t, uint64_t, x)                                          \
    CONVERT_LOOP(i64_from_i32, int64_t, int32_t, x)                                            \
    CONVERT_LOOP(u32_from_u8, uint32_t, uint8_t, x)                                            \
    CONVERT_LOOP(u8_from_u32, uint8_t, uint32_t, x)

#endif
