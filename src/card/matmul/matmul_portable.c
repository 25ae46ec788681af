// SPDX-License-Identifier: Apache-2.0
//
// Multiplies, then adds: the same as one fma for products that fp32 holds exactly.
#include "card/simd/lanes.h"

typedef float four_floats __attribute__((vector_size(16)));

static inline void round_to(uint8_t *to, four_floats x, four_floats y)
{
    const float values[8] = {x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]};
    lanes_store_f32(to, 2, SPYRE_FORMAT_SEN169_FP16, values, 8);
}

#define BLOCK_NAME    matmul_block_portable
#define BLOCK_VECTOR  four_floats
#define BLOCK_WIDTH   4
#define BLOCK_VECTORS 2
#define BLOCK_MULTIPLY_ADD(x, line, sum) ((sum) + (x) * (line))
#define BLOCK_ROUND   round_to
#include "card/matmul/matmul_block.h"
