// SPDX-License-Identifier: Apache-2.0
#include "tensor/convert_kernels.h"

CONVERT_LOOP(dl16_from_f16, uint16_t, uint16_t, dl16_from_host_float(fp16_to_float(x)))
CONVERT_LOOP(f16_from_dl16, uint16_t, uint16_t, dl16_to_host_fp16(x))
CONVERT_LOOP(dl16_from_bf16, uint16_t, uint16_t, dl16_from_host_float(bf16_to_float(x)))
CONVERT_LOOP(bf16_from_dl16, uint16_t, uint16_t, bf16_from_float(dl16_to_float(x)))
CONVERT_LOOP(dl16_from_f32, uint16_t, float, dl16_from_host_float(x))
CONVERT_LOOP(dl16_from_f32_once, uint16_t, float, dl16_from_float(x))
CONVERT_LOOP(f32_from_dl16, float, uint16_t, dl16_to_float(x))

#define narrow_integers narrow_each
CONVERT_SHARED_LOOPS
CONVERT_SUM

#define CONVERT_ROW(name, target, source) CONVERT_ROWS(name, CONVERT_BYTES_##target)
#include "tensor/convert.def"

const convert_kernels convert_portable = {
    .name = "portable",
    .i32_from_i64_held = i32_from_i64_held,
    .copy = copy,
    .copy_rows = copy_rows,
    .stream = copy_rows,
    .dl16_from_f32_once = dl16_from_f32_once,
    .dl16_sum = dl16_sum,
#define CONVERT_ROW(name, target, source) .name = name, .name##_rows = name##_rows,
#include "tensor/convert.def"
};
