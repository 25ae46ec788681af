// SPDX-License-Identifier: Apache-2.0
//
// Runs of elements in registers: from memory to fp32 or fp64, through one opfunc, and back. All of
// them give what the scalar definitions of tensor/opfunc.h give.
//
// fp32 registers are exact enough in these cases, and only there (lanes_f32_suffices):
//   - SEN169_FP16 results of + - * / on SEN169_FP16: sums and products of two 10-bit significands
//     are exact in fp32 or so far from a tie that rounding to 24 bits first changes nothing; a
//     quotient of 10-bit significands is a tie exactly or at least 2^-21 away from one;
//   - sqrt of them, for another reason: a tie of SEN169_FP16 has 11 bits, so its square is no value
//     of 10, and differs from one by 2^-20 of it, the roots by 2^-22 or more;
//   - rsqrt, reciprocal, hardsigmoid and hardswish of SEN169_FP16: lanes_test.c goes through every
//     code, and each operation of theirs rounds alike on all hosts;
//   - IEEE_FP32 results of + - * / sqrt: 53 >= 2 * 24 + 2, so fp64 first changes nothing;
//   - functions that round nothing (maximum, where3, abs, conversions, ...).
#ifndef CARD_LANES_H
#define CARD_LANES_H

#include <stddef.h>

#include "tensor/opfunc.h"

enum { LANES_CHUNK = 512 };         // elements that callers convert at a time where they need room

// The next elements of a run that is converted in chunks.
static inline size_t chunk_length(int64_t left)
{
    return (size_t)(left < LANES_CHUNK ? left : LANES_CHUNK);
}

bool lanes_f32_suffices(opfunc op, spyre_format result, const spyre_format *inputs,
                        uint32_t count);

// True when the opfunc makes no value of SEN169_FP16 values that is not of them as well: one of its
// inputs, but for the sign, 0 or 1.
bool lanes_selects(opfunc op);

// True when every value of the format is an fp32 value.
bool lanes_fits_f32(spyre_format format);

// Any count of elements.
void lanes_load_f32(float *out, const uint8_t *from, int64_t stride, spyre_format format,
                    size_t count);
void lanes_store_f32(uint8_t *to, int64_t stride, spyre_format format, const float *values,
                     size_t count);
void lanes_load_f64(double *out, const uint8_t *from, int64_t stride, spyre_format format,
                    size_t count);
void lanes_store_f64(uint8_t *to, int64_t stride, spyre_format format, const double *values,
                     size_t count);

// out[n] = op(in[0][n], ...). in[0..5) are all valid pointers, none of them `out`; those that
// layernormnorm does without hold its neutral values. The fp32 form has no function
// for the opfuncs that lanes_f32_suffices refuses.
typedef void lanes_f32_fn(float *out, const float *const *in, const float *constant,
                          size_t count);
typedef void lanes_f64_fn(double *out, const double *const *in, const float *constant,
                          size_t count);
lanes_f32_fn *lanes_f32_function(opfunc op);
lanes_f64_fn *lanes_f64_function(opfunc op);        // null: apply opfunc_apply to every element

// accumulator[n] = opfunc_combine(op, accumulator[n], values[n]).
void lanes_combine(opfunc op, float *accumulator, const float *values, size_t count);
void lanes_square(float *values, size_t count);

#endif
