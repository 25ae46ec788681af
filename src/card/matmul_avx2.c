// SPDX-License-Identifier: Apache-2.0
//
// AVX2: a block of up to ROWS x VECTORS vector registers holds its sums over all of k.
#include <stddef.h>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#include <immintrin.h>

#include "card/matmul.h"

enum { ROWS = 6, VECTORS = 2, WIDTH = 8 };

static inline __attribute__((always_inline)) void block(float *c, size_t c_stride, const float *a,
                                                        size_t a_stride, const float *b,
                                                        size_t b_stride, size_t k, int rows,
                                                        int vectors)
{
    __m256 sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = _mm256_loadu_ps(c + (size_t)r * c_stride + v * WIDTH);
    for (size_t n = 0; n < k; n++) {
        __m256 line[VECTORS];
        for (int v = 0; v < vectors; v++) line[v] = _mm256_loadu_ps(b + n * b_stride + v * WIDTH);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 x = _mm256_set1_ps(a[(size_t)r * a_stride + n]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[r][v] = _mm256_fmadd_ps(x, line[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm256_storeu_ps(c + (size_t)r * c_stride + v * WIDTH, sum[r][v]);
}

#define BLOCK(rows, vectors)                                                                \
    static void block_##rows##x##vectors(float *c, size_t c_stride, const float *a,         \
                                         size_t a_stride, const float *b, size_t b_stride,  \
                                         size_t k)                                          \
    {                                                                                       \
        block(c, c_stride, a, a_stride, b, b_stride, k, rows, vectors);                     \
    }
#define BLOCKS(vectors)                                                                     \
    BLOCK(1, vectors) BLOCK(2, vectors) BLOCK(3, vectors)                                   \
    BLOCK(4, vectors) BLOCK(5, vectors) BLOCK(6, vectors)
BLOCKS(2)

typedef void block_fn(float *, size_t, const float *, size_t, const float *, size_t, size_t);
static block_fn *const blocks[ROWS] = {block_1x2, block_2x2, block_3x2,
                                       block_4x2, block_5x2, block_6x2};

void matmul_block_avx2(float *c, size_t c_stride, const float *a, size_t a_stride,
                       const float *b, size_t b_stride, size_t rows, size_t lanes, size_t k)
{
    for (size_t row = 0; row < rows; row += ROWS) {
        size_t height = rows - row < ROWS ? rows - row : ROWS;
        for (size_t lane = 0; lane < lanes; lane += WIDTH * VECTORS) {
            blocks[height - 1](c + row * c_stride + lane, c_stride, a + row * a_stride, a_stride,
                               b + lane, b_stride, k);
        }
    }
}
#endif
