// SPDX-License-Identifier: Apache-2.0
//
// Matmul tiles: operands are packed to fp32 and go through a register-blocked kernel. Every result
// is one chain acc = fma(a, b, acc) with k ascending, whatever the blocking.
#ifndef CARD_MATMUL_H
#define CARD_MATMUL_H

#include "card/plan.h"

// Executes a MATMUL whose operands do not overlap its result. False (nothing done) when the formats
// have no fast form or the host has no memory for packing.
bool matmul_fast(const isa_instruction *i, uint8_t *const *address, plan_scratch *scratch);

// c[row][lane] = fma over k of a[row][k] * b[k][lane]; strides in floats, lanes a multiple of 16.
typedef void matmul_block(float *c, size_t c_stride, const float *a, size_t a_stride,
                          const float *b, size_t b_stride, size_t rows, size_t lanes, size_t k);
matmul_block matmul_block_portable;     // multiplies and adds: for products that fp32 holds exactly
#if defined(__x86_64__)
matmul_block matmul_block_avx2;
matmul_block matmul_block_avx512;
#endif

#endif
