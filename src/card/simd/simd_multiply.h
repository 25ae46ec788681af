// SPDX-License-Identifier: Apache-2.0
//
// Products of a few rows with lines of codes, over the layer that card/simd/simd_body.h
// describes, whose part this is. Each line is read once and widened in registers, where all sums
// are.
enum { LINES_AHEAD = 16 };

// Lanes [first, first + steps * STEP) of all lines; rows and steps are constants where it is
// called, so that the sums stay in registers.
ALWAYS_INLINE void multiply_rows(const simd_product *p, size_t rows, size_t first, size_t steps)
{
    pair sum[STEP_ROWS][BLOCK_STEPS];
    uint8_t *sums = (uint8_t *)(p->sums + first);
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < steps; n++)
            sum[row][n] = pair_load_f32(sums + 4 * (row * BLOCK_LANES + n * STEP));
    const uint8_t *at = p->b + 2 * first;
    for (size_t k = 0; k < p->depth; k++, at += 2 * BLOCK_LANES) {
        __builtin_prefetch(at + LINES_AHEAD * 2 * BLOCK_LANES);
        if (steps == BLOCK_STEPS) __builtin_prefetch(at + LINES_AHEAD * 2 * BLOCK_LANES + 64);
        for (size_t n = 0; n < steps; n++) {
            pair line = pair_load_dl16(at + n * STEP * 2);
            for (size_t row = 0; row < rows; row++) {
                V a = v_set(p->a[row * BLOCK_LANES + k]);
                sum[row][n].a = v_fma(a, line.a, sum[row][n].a);
                sum[row][n].b = v_fma(a, line.b, sum[row][n].b);
            }
        }
    }
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < steps; n++)
            pair_store_f32(sums + 4 * (row * BLOCK_LANES + n * STEP), sum[row][n]);
}

// More rows than registers have room for at once: one step of lanes after the other.
ALWAYS_INLINE void multiply_steps(const simd_product *p, size_t rows)
{
    for (size_t n = 0; n < BLOCK_STEPS; n++) multiply_rows(p, rows, n * STEP, 1);
}

#define ROWS(count)                                                                         \
    case count:                                                                             \
        if (count <= BLOCK_ROWS) multiply_rows(p, count, 0, BLOCK_STEPS);                   \
        else if (count <= STEP_ROWS) multiply_steps(p, count);                              \
        return;

static void multiply(const simd_product *p)
{
    switch (p->rows) {
        ROWS(1)
        ROWS(2)
        ROWS(3)
        ROWS(4)
        ROWS(5)
        ROWS(6)
        ROWS(7)
        ROWS(8)
    }
}
#undef ROWS
