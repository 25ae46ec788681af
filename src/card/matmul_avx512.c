// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,fma")
#include <immintrin.h>

#define BLOCK_NAME    matmul_block_avx512
#define BLOCK_VECTOR  __m512
#define BLOCK_WIDTH   16
#define BLOCK_VECTORS 4
#define BLOCK_MULTIPLY_ADD(x, line, sum) _mm512_fmadd_ps(_mm512_set1_ps(x), line, sum)
#include "card/matmul_block.h"
#endif
