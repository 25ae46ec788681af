// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,fma")
#define ROUND_BITS 512
#include "card/simd/round_codes.h"

static inline void round_to(uint8_t *to, __m512 x, __m512 y)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi64(order, round_in_turns(x, y)));
}

#define BLOCK_NAME    matmul_block_avx512
#define BLOCK_VECTOR  __m512
#define BLOCK_WIDTH   16
#define BLOCK_VECTORS 4
#define BLOCK_MULTIPLY_ADD(x, line, sum) _mm512_fmadd_ps(_mm512_set1_ps(x), line, sum)
#define BLOCK_ROUND   round_to
#include "card/matmul/matmul_block.h"
#endif
