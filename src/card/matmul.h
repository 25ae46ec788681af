// SPDX-License-Identifier: Apache-2.0
//
// Matmul tiles: operands are packed to fp32 and go through a register-blocked kernel. Every result
// is one chain acc = fma(a, b, acc) with k ascending, whatever the blocking.
#ifndef CARD_MATMUL_H
#define CARD_MATMUL_H

#include "card/plan.h"

// The operands of one core, element 0 of each.
typedef uint8_t *matmul_operands[ISA_MAX_OPERANDS];

// Executes one MATMUL instruction for `count` cores that read operand 2 at one place and whose
// operands do not overlap their results: the columns are packed once for all. False (nothing done)
// when the formats have no fast form or the host has no memory for packing.
bool matmul_fast(const isa_instruction *i, const matmul_strides *strides,
                 const matmul_operands *cores, uint32_t count, plan_scratch *scratch);

// The same for a tile, with exact_run where there is no fast form (exec_fast.c).
void fast_matmul(const plan_tile *tile, const matmul_strides *strides,
                 const matmul_operands *cores, uint32_t count, plan_scratch *scratch);

// c[row][lane] = fma over k of a[row][k] * b[k][lane]; strides in floats, lanes a multiple of 16.
typedef void matmul_block(float *c, size_t c_stride, const float *a, size_t a_stride,
                          const float *b, size_t b_stride, size_t rows, size_t lanes, size_t k);
matmul_block matmul_block_portable;     // multiplies and adds: for products that fp32 holds exactly
#if defined(__x86_64__)
matmul_block matmul_block_avx2;
matmul_block matmul_block_avx512;
#endif

#endif
