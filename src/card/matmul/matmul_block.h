// SPDX-License-Identifier: Apache-2.0
//
// The body of a matmul kernel, the same for every instruction set: a block of up to MATMUL_ROWS
// rows by VECTORS registers holds its sums over all of k. The including file defines
//
//     BLOCK_NAME                  the kernel's name
//     BLOCK_VECTOR, BLOCK_WIDTH   a register of that many floats
//     BLOCK_VECTORS               registers a row: MATMUL_ROWS x BLOCK_VECTORS sums, BLOCK_VECTORS
//                                 columns and one row value fit the register file
//     BLOCK_MULTIPLY_ADD(x, line, sum)   fma of a float with a register, lane by lane
//     BLOCK_ROUND(to, x, y)       two registers to SEN169_FP16 elements, side by side
//
// Private to the kernels of src/card.
#include "card/matmul/matmul.h"

enum { WIDTH = BLOCK_WIDTH, VECTORS = BLOCK_VECTORS };
enum { NARROW = VECTORS * WIDTH > 32 ? 32 / WIDTH : VECTORS };

#define BLOCK_INLINE static inline __attribute__((always_inline))

// Registers in memory, at the address of any float.
typedef BLOCK_VECTOR floats __attribute__((aligned(4), may_alias));

BLOCK_INLINE void fetch(matmul_lines *lines)
{
    size_t now = lines->count < lines->a_run ? lines->count : lines->a_run;
    lines->count -= now;
    for (; now; now--, lines->at += lines->step) {
        __builtin_prefetch(lines->at, 0, 2);
        __builtin_prefetch(lines->at + MATMUL_LINE / 2, 0, 2);
    }
}

// lanes [0, vectors * WIDTH) of `rows` results; both are constants where it is called. All loops
// over them are unrolled, or the sums would not be registers from the first to the last.
BLOCK_INLINE void block(float *const *c, size_t lane, const matmul_panel *p, int rows, int vectors)
{
    BLOCK_VECTOR sum[MATMUL_ROWS][VECTORS];
    bool fresh = p->fresh;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            if (fresh) sum[r][v] = (BLOCK_VECTOR){0};
            else sum[r][v] = *(const floats *)(c[r] + lane + v * WIDTH);
    const float *a = p->a, *b = p->b + lane;
    // A few lines a run, or the block would wait for what is only fetched for later.
    matmul_lines columns = p->next_columns, sums = p->next_sums;
    if (lane) columns.count = sums.count = 0;
    for (size_t left = p->depth; left > 0; a += p->a_next) {
        size_t run = left < MATMUL_RUN ? left : MATMUL_RUN;
        left -= run;
        fetch(&columns);
        fetch(&sums);
        for (size_t k = 0; k < run; k++, b += MATMUL_RUN) {
            BLOCK_VECTOR line[VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                line[v] = *(const floats *)(b + v * WIDTH);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                float x = a[r * MATMUL_RUN + (int)k];
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = BLOCK_MULTIPLY_ADD(x, line[v], sum[r][v]);
            }
        }
    }
    if (p->results) {
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v += 2)
                BLOCK_ROUND(p->results[r] + p->column + 2 * ((int64_t)lane + v * WIDTH),
                            sum[r][v], sum[r][v + 1]);
        return;
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            *(floats *)(c[r] + lane + v * WIDTH) = sum[r][v];
}

#define BLOCK(rows)                                                                         \
    static void wide_##rows(float *const *c, size_t lane, const matmul_panel *p)            \
    {                                                                                       \
        block(c, lane, p, rows, VECTORS);                                                   \
    }                                                                                       \
    static void narrow_##rows(float *const *c, size_t lane, const matmul_panel *p)          \
    {                                                                                       \
        block(c, lane, p, rows, NARROW);                                                    \
    }
BLOCK(1)
BLOCK(2)
BLOCK(3)
BLOCK(4)
BLOCK(5)
BLOCK(6)

typedef void block_fn(float *const *c, size_t lane, const matmul_panel *p);
static block_fn *const wide[MATMUL_ROWS] = {wide_1, wide_2, wide_3, wide_4, wide_5, wide_6};
static block_fn *const narrow[MATMUL_ROWS] = {narrow_1, narrow_2, narrow_3,
                                              narrow_4, narrow_5, narrow_6};

void BLOCK_NAME(float *const *c, size_t rows, const matmul_panel *p)
{
    size_t lane = 0;
    for (; lane + VECTORS * WIDTH <= p->wanted; lane += VECTORS * WIDTH)
        wide[rows - 1](c, lane, p);
    for (; lane < p->wanted; lane += NARROW * WIDTH) narrow[rows - 1](c, lane, p);
}
