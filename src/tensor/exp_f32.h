// SPDX-License-Identifier: Apache-2.0
#ifndef TENSOR_EXP_F32_H
#define TENSOR_EXP_F32_H

#include <stddef.h>

// result[n] = elementary_exp(x[n]) rounded once to fp32, of the first elements; returns how many.
// The same arrays or apart.
size_t exp_f32(float *result, const float *x, size_t count);

#endif
