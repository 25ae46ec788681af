// SPDX-License-Identifier: Apache-2.0
//
// Conversion of runs of elements between formats, as transfers between host and card do it, chosen
// at run time among portable C, AVX2 and AVX-512. All variants give the same bytes.
#ifndef TENSOR_CONVERT_H
#define TENSOR_CONVERT_H

#include <stddef.h>

#include "base/status.h"
#include "spyre/dtype.h"

// Converts `count` contiguous elements. Buffers must not overlap unless the formats have the same
// element size. To SEN169_FP16 finite overflow saturates; integers wrap as C casts do; anything to
// BOOL is (x != 0). SPYRE_UNSUPPORTED names a pair of formats that has no rule.
SPYRE_MUST_CHECK spyre_status convert_elements(void *target, spyre_format target_format,
                                               const void *source, spyre_format source_format,
                                               size_t count);

// Fast paths for programs of the card: no saturation, one rounding (see dl16_from_float).
void convert_dl16_to_float(float *target, const void *source, size_t count);
void convert_float_to_dl16(void *target, const float *source, size_t count);

// The variant in use: "portable", "avx2" or "avx512". SPYRE_SIMD=<name> restricts the choice.
const char *convert_variant(void);

#endif
