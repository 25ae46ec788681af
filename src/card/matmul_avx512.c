// SPDX-License-Identifier: Apache-2.0
//
// AVX-512: a block of up to ROWS x VECTORS vector registers holds its sums over all of k.
#include <stddef.h>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,fma")
#include <immintrin.h>

#include "card/matmul.h"

enum { ROWS = 6, VECTORS = 4, WIDTH = 16 };

static inline __attribute__((always_inline)) void block(float *c, size_t c_stride, const float *a,
                                                        size_t a_stride, const float *b,
                                                        size_t b_stride, size_t k, int rows,
                                                        int vectors)
{
    __m512 sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sum[r][v] = _mm512_loadu_ps(c + (size_t)r * c_stride + v * WIDTH);
    for (size_t n = 0; n < k; n++) {
        __m512 line[VECTORS];
        for (int v = 0; v < vectors; v++) line[v] = _mm512_loadu_ps(b + n * b_stride + v * WIDTH);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512 x = _mm512_set1_ps(a[(size_t)r * a_stride + n]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_fmadd_ps(x, line[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + (size_t)r * c_stride + v * WIDTH, sum[r][v]);
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
BLOCKS(4)
BLOCKS(1)

typedef void block_fn(float *, size_t, const float *, size_t, const float *, size_t, size_t);
static block_fn *const wide[ROWS] = {block_1x4, block_2x4, block_3x4,
                                     block_4x4, block_5x4, block_6x4};
static block_fn *const narrow[ROWS] = {block_1x1, block_2x1, block_3x1,
                                       block_4x1, block_5x1, block_6x1};

void matmul_block_avx512(float *c, size_t c_stride, const float *a, size_t a_stride,
                         const float *b, size_t b_stride, size_t rows, size_t lanes, size_t k)
{
    for (size_t row = 0; row < rows; row += ROWS) {
        size_t height = rows - row < ROWS ? rows - row : ROWS;
        for (size_t lane = 0; lane < lanes;) {
            bool fits = lanes - lane >= WIDTH * VECTORS;
            block_fn *run = fits ? wide[height - 1] : narrow[height - 1];
            run(c + row * c_stride + lane, c_stride, a + row * a_stride, a_stride, b + lane,
                b_stride, k);
            lane += fits ? WIDTH * VECTORS : WIDTH;
        }
    }
}
#endif
