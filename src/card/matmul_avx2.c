// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#include <immintrin.h>

#define BLOCK_NAME    matmul_block_avx2
#define BLOCK_VECTOR  __m256
#define BLOCK_WIDTH   8
#define BLOCK_VECTORS 2
#define BLOCK_MULTIPLY_ADD(x, line, sum) _mm256_fmadd_ps(_mm256_set1_ps(x), line, sum)
#include "card/matmul_block.h"
#endif
