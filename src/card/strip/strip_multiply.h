// SPDX-License-Identifier: Apache-2.0
//
// Products of a few rows with lines of codes, over the layer that card/strip/strip_body.h
// describes, whose part this is. Each line is read once and widened in registers, where all sums
// are.
enum { LINES_AHEAD = 16 };

ALWAYS_INLINE void multiply_rows(const strip_product *p, size_t rows)
{
    pair sum[BLOCK_ROWS][BLOCK_STEPS];
    uint8_t *sums = (uint8_t *)p->sums;
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < BLOCK_STEPS; n++)
            sum[row][n] = pair_load_f32(sums + 4 * (row * BLOCK_LANES + n * STEP));
    const uint8_t *at = p->b;
    for (size_t k = 0; k < p->depth; k++, at += 2 * BLOCK_LANES) {
        __builtin_prefetch(at + LINES_AHEAD * 2 * BLOCK_LANES);
        __builtin_prefetch(at + LINES_AHEAD * 2 * BLOCK_LANES + 64);
        for (size_t n = 0; n < BLOCK_STEPS; n++) {
            pair line = pair_load_dl16(at + n * STEP * 2);
            for (size_t row = 0; row < rows; row++) {
                V a = v_set(p->a[row * BLOCK_LANES + k]);
                sum[row][n].a = v_fma(a, line.a, sum[row][n].a);
                sum[row][n].b = v_fma(a, line.b, sum[row][n].b);
            }
        }
    }
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < BLOCK_STEPS; n++)
            pair_store_f32(sums + 4 * (row * BLOCK_LANES + n * STEP), sum[row][n]);
}

static void multiply(const strip_product *p)
{
    // Constants, so that the sums stay in registers.
    if (p->rows == 1) multiply_rows(p, 1);
    else if (p->rows == 2 && BLOCK_ROWS > 1) multiply_rows(p, 2);
    else if (p->rows == 3 && BLOCK_ROWS > 2) multiply_rows(p, 3);
    else if (p->rows == 4 && BLOCK_ROWS > 3) multiply_rows(p, 4);
}
