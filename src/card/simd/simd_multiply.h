// SPDX-License-Identifier: Apache-2.0
//
// Products of a few rows with lines of codes, over the layer that card/simd/simd_body.h
// describes, whose part this is. Each line is read once and widened in registers, where all sums
// are. Codes that cannot be widened by a shift are looked for meanwhile: they are rare, and telling
// them apart lane by lane would take as long as the products.
//
// The second cache fetches the lines of the next stick by turns with the products. Otherwise the
// first step of lanes would ask memory for a whole stick, and the others for nothing.
enum { CACHE_LINE = 64 };

// A run of k for lanes [first, first + steps * STEP).
ALWAYS_INLINE void multiply_run(const simd_product *p, size_t done, const uint8_t *at,
                                size_t rows, size_t first, size_t steps,
                                pair sum[STEP_ROWS][BLOCK_STEPS], code_bounds *seen)
{
    const float *a = p->a + done / BLOCK_LANES * p->a_next + done % BLOCK_LANES;
    size_t count = p->depth - done < p->run ? p->depth - done : p->run;
    for (size_t k = 0; k < count; k++, a++, at += p->line) {
#pragma GCC unroll 4
        for (size_t n = 0; n < steps; n++) {
            if ((first + n * STEP) * 2 % CACHE_LINE == 0)
                __builtin_prefetch(at + p->ahead + n * STEP * 2, 0, 2);
            pair line = pair_load_scaled(at + n * STEP * 2);
            see_codes(seen, at + n * STEP * 2);
#pragma GCC unroll 8
            for (size_t row = 0; row < rows; row++) {
                V x = v_set(a[row * BLOCK_LANES]);
                sum[row][n].a = v_fma(x, line.a, sum[row][n].a);
                sum[row][n].b = v_fma(x, line.b, sum[row][n].b);
            }
        }
    }
}

// Lanes [first, first + steps * STEP) of all lines; rows and steps are constants where it is
// called, and all loops over them unrolled, so that the sums stay in registers.
ALWAYS_INLINE bool multiply_rows(const simd_product *p, size_t rows, size_t first, size_t steps)
{
    pair sum[STEP_ROWS][BLOCK_STEPS];
    uint8_t *sums = (uint8_t *)(p->sums + first);
    code_bounds seen = no_codes();
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (size_t n = 0; n < steps; n++)
            sum[row][n] = pair_load_turns(sums + 4 * (row * BLOCK_LANES + n * STEP));
    for (size_t done = 0, run = 0; done < p->depth; done += p->run, run++)
        multiply_run(p, done, p->b[run] + 2 * first, rows, first, steps, sum, &seen);
    if (!all_scaled(&seen)) return false;
#pragma GCC unroll 8
    for (size_t row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (size_t n = 0; n < steps; n++)
            pair_store_turns(sums + 4 * (row * BLOCK_LANES + n * STEP), sum[row][n]);
    return true;
}

// More rows than registers have room for at once: one step of lanes after the other.
ALWAYS_INLINE bool multiply_steps(const simd_product *p, size_t rows)
{
    for (size_t n = 0; n < BLOCK_STEPS; n++)
        if (!multiply_rows(p, rows, n * STEP, 1)) return false;
    return true;
}

#define ROWS(count)                                                                         \
    case count:                                                                             \
        if (count <= BLOCK_ROWS) return multiply_rows(p, count, 0, BLOCK_STEPS);            \
        return count <= STEP_ROWS && multiply_steps(p, count);

static bool multiply(const simd_product *p)
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
    return false;
}
#undef ROWS
