// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define ROUND_BITS 256
#include "card/simd/round_codes.h"

static inline void round_to(uint8_t *to, __m256 x, __m256 y)
{
    __m256i codes = _mm256_permute4x64_epi64(round_in_turns(x, y), 0xD8);
    _mm256_storeu_si256((__m256i *)(void *)to, codes);
}

#define BLOCK_NAME    matmul_block_avx2
#define BLOCK_VECTOR  __m256
#define BLOCK_WIDTH   8
#define BLOCK_VECTORS 2
#define BLOCK_MULTIPLY_ADD(x, line, sum) _mm256_fmadd_ps(_mm256_set1_ps(x), line, sum)
#define BLOCK_ROUND   round_to
#include "card/matmul/matmul_block.h"
#endif
