// SPDX-License-Identifier: Apache-2.0
//
// Products of a few rows with lines of codes, over the layer that card/simd/simd_body.h
// describes, whose part this is. Lines are widened in registers, where the sums are: of as many
// rows and lanes as there is room for. Codes that cannot be widened by a shift are looked for
// meanwhile: they are rare, and telling them apart lane by lane would take as long as the products.
//
// A stick of lines is larger than the first cache, so where registers hold less than its cache
// lines or rows at once, sums wait in memory while a block of lines is read from that cache again.
// More rows than registers hold get the lines that the first ones have widened:
//
//     8 rows, eight fp32 in a register:   for each 32 lines, for each 16 of 64 lanes:
//         rows 0..3   widen, look at and keep 32 x 16 codes; 4 x 16 sums
//         rows 4..7   read what is kept;                      4 x 16 sums
//
// The second cache fetches the lines of the next stick by turns with the products. Otherwise the
// first step of lanes would ask memory for a whole stick, and the others for nothing.
enum { CACHE_LINE = 64, BLOCK_DEPTH = 32 };

typedef struct {
    pair sums[SIMD_MOST_ROWS][BLOCK_STEPS];
    pair kept[BLOCK_DEPTH];                 // lines of one step of lanes
    code_bounds seen;
} few_state;

// What registers hold at once; constants where it is called, and all loops over them unrolled.
typedef struct {
    size_t row, rows, first, steps;         // steps of lanes
    bool keeps;
} few_part;

ALWAYS_INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// The codes of a step of lanes of line k of a block, whose codes lie at `at`.
ALWAYS_INLINE pair widened(const simd_product *p, few_state *s, const few_part *x, size_t k,
                           size_t step, const uint8_t *at, code_bounds *seen)
{
    if (x->row > 0) return s->kept[k];
    if (step * STEP * 2 % CACHE_LINE == 0) __builtin_prefetch(at + p->ahead, 0, 2);
    pair line = pair_load_scaled(at);
    see_codes(seen, at);
    if (x->keeps) s->kept[k] = line;
    return line;
}

// Lines [begin, end) of k.
ALWAYS_INLINE void multiply_part(const simd_product *p, few_state *s, few_part x, size_t begin,
                                 size_t end)
{
    pair sum[STEP_ROWS][BLOCK_STEPS];
    code_bounds seen = s->seen;
#pragma GCC unroll 8
    for (size_t row = 0; row < x.rows; row++)
#pragma GCC unroll 4
        for (size_t n = 0; n < x.steps; n++) sum[row][n] = s->sums[x.row + row][x.first + n];
    for (size_t k = begin; k < end;) {
        size_t place = k % p->run, of_a = k % BLOCK_LANES;
        const uint8_t *at = p->b[k / p->run] + (int64_t)place * p->line + x.first * STEP * 2;
        const float *a = p->a + k / BLOCK_LANES * p->a_next + of_a + x.row * BLOCK_LANES;
        size_t stop = k + least(end - k, least(p->run - place, BLOCK_LANES - of_a));
        for (; k < stop; k++, a++, at += p->line) {
#pragma GCC unroll 4
            for (size_t n = 0; n < x.steps; n++) {
                pair line = widened(p, s, &x, k - begin, x.first + n, at + n * STEP * 2, &seen);
#pragma GCC unroll 8
                for (size_t row = 0; row < x.rows; row++) {
                    V factor = v_set(a[row * BLOCK_LANES]);
                    sum[row][n].a = v_fma(factor, line.a, sum[row][n].a);
                    sum[row][n].b = v_fma(factor, line.b, sum[row][n].b);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (size_t row = 0; row < x.rows; row++)
#pragma GCC unroll 4
        for (size_t n = 0; n < x.steps; n++) s->sums[x.row + row][x.first + n] = sum[row][n];
    s->seen = seen;
}

// Steps of lanes that are wanted.
ALWAYS_INLINE size_t wanted_steps(const simd_product *p)
{
    return (p->wanted + STEP - 1) / STEP;
}

// All rows and wanted lanes, `steps` of lanes at a time.
ALWAYS_INLINE void multiply_block(const simd_product *p, few_state *s, size_t rows, size_t steps,
                                  size_t begin, size_t end)
{
    const size_t second = rows > STEP_ROWS ? rows / 2 : rows;
    for (size_t first = 0; first < wanted_steps(p); first += steps) {
        multiply_part(p, s, (few_part){0, second, first, steps, second < rows}, begin, end);
        if (second < rows)
            multiply_part(p, s, (few_part){second, rows - second, first, steps, false}, begin, end);
    }
}

ALWAYS_INLINE void multiply_depth(const simd_product *p, few_state *s, size_t rows, size_t steps)
{
    const bool reads_once = rows <= STEP_ROWS && steps * STEP * 2 >= CACHE_LINE;
    const size_t block = reads_once ? p->depth : BLOCK_DEPTH;
    for (size_t begin = 0; begin < p->depth; begin += block)
        multiply_block(p, s, rows, steps, begin, least(begin + block, p->depth));
}

ALWAYS_INLINE bool multiply_rows(const simd_product *p, size_t rows)
{
    few_state s;
    s.seen = no_codes();
    uint8_t *sums = (uint8_t *)p->sums;
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < BLOCK_STEPS; n++)
            s.sums[row][n] = pair_load_turns(sums + 4 * (row * BLOCK_LANES + n * STEP));
    if (rows <= BLOCK_ROWS && wanted_steps(p) == BLOCK_STEPS)
        multiply_depth(p, &s, rows, BLOCK_STEPS);
    else multiply_depth(p, &s, rows, 1);
    if (!all_scaled(&s.seen)) return false;
    for (size_t row = 0; row < rows; row++)
        for (size_t n = 0; n < BLOCK_STEPS; n++)
            pair_store_turns(sums + 4 * (row * BLOCK_LANES + n * STEP), s.sums[row][n]);
    return true;
}

#define ROWS(count)                                                                         \
    case count:                                                                             \
        return count <= FEW_ROWS && multiply_rows(p, count);

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
