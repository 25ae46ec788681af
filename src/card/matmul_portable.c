// SPDX-License-Identifier: Apache-2.0
//
// Multiplies, then adds: the same as one fma for products that fp32 holds exactly.
typedef float four_floats __attribute__((vector_size(16)));

#define BLOCK_NAME    matmul_block_portable
#define BLOCK_VECTOR  four_floats
#define BLOCK_WIDTH   4
#define BLOCK_VECTORS 2
#define BLOCK_MULTIPLY_ADD(x, line, sum) ((sum) + (x) * (line))
#include "card/matmul_block.h"
