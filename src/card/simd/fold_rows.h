// SPDX-License-Identifier: Apache-2.0
//
// The end of a vector program's sums: each row's lanes to one number, as FOLD does, which lie side
// by side from the first row's lanes on; or its lanes in the order of elements. A part of
// program_body.h.

// A row's lanes, in so many pairs, to *out, which may lie in them or before. A pair has its
// elements in turns of four, so each step but the last two combines registers or parts of them.
#define ROW_FOLDER(name, combine)                                                             \
    static void name(const float *values, size_t pairs, float *out)                           \
    {                                                                                         \
        float lanes[LANES];                                                                   \
        pair x[UNIT_PAIRS];                                                                   \
        for (size_t n = 0; n < UNIT_PAIRS; n++)                                               \
            x[n] = load_same((const uint8_t *)values, SIMD_F32, n * STEP);                    \
        for (size_t half = pairs / 2; half > 0; half /= 2)                                    \
            for (size_t n = 0; n < half; n++)                                                 \
                x[n] = (pair){combine(x[n].a, x[n + half].a), combine(x[n].b, x[n + half].b)};\
        V a = x[0].a, b = x[0].b;                                                             \
        for (int half = LANES / 2; half >= 4; half /= 2) {                                    \
            a = combine(a, v_lanes_behind(a, half));                                          \
            b = combine(b, v_lanes_behind(b, half));                                          \
        }                                                                                     \
        a = combine(a, b);                                                                    \
        for (int half = 2; half > 0 && half < LANES; half /= 2)                               \
            a = combine(a, v_lanes_behind(a, half));                                          \
        v_store((uint8_t *)lanes, a);                                                         \
        *out = lanes[0];                                                                      \
    }

// Several rows at once, where the layer has registers for it.
#ifndef FOLD_TOGETHER
enum { ROWS_TOGETHER = 1 };
#define FOLD_TOGETHER(name, combine, alone)                                                   \
    static void name(const float *values, size_t pairs, float *out)                           \
    {                                                                                         \
        alone(values, pairs, out);                                                            \
    }
#endif

#define ROWS_FOLDER(combine, row, rows)                                                       \
    ROW_FOLDER(row, combine)                                                                  \
    FOLD_TOGETHER(rows, combine, row)
ROWS_FOLDER(ADD_UP, fold_row_sum, fold_row_sums)
ROWS_FOLDER(MULTIPLY, fold_row_product, fold_row_products)
ROWS_FOLDER(LARGEST, fold_row_max, fold_rows_max)
ROWS_FOLDER(SMALLEST, fold_row_min, fold_rows_min)

typedef struct {
    void (*row)(const float *values, size_t pairs, float *out);
    void (*rows)(const float *values, size_t pairs, float *out);    // ROWS_TOGETHER of them
} row_folders;

static void fold_sums(float *values, uint32_t op, size_t rows, size_t pairs)
{
    static const row_folders folders[SIMD_SUMS] = {{fold_row_sum, fold_row_sums},
                                                   {fold_row_sum, fold_row_sums},
                                                   {fold_row_max, fold_rows_max},
                                                   {fold_row_min, fold_rows_min},
                                                   {fold_row_product, fold_row_products}};
    const row_folders *fold = &folders[vector_sum_of(op)];
    size_t row = 0;
    for (; row + ROWS_TOGETHER <= rows; row += ROWS_TOGETHER)
        fold->rows(values + row * STICK_LANES, pairs, values + row);
    for (; row < rows; row++) fold->row(values + row * STICK_LANES, pairs, values + row);
}

// The lanes of a row in the order of elements.
static void order_row(float *values, size_t pairs)
{
    for (size_t n = 0; n < pairs * STEP; n += STEP) {
        uint8_t *at = (uint8_t *)(values + n);
        pair_store_f32(at, load_same(at, SIMD_F32, 0));
    }
}

static void end_sums(const vector_step *s, size_t rows)
{
    const size_t pairs = vector_sums_wide(s->op) ? HALF_PAIRS : UNIT_PAIRS;
    if (s->folds) fold_sums(s->values, s->op, rows, pairs);
    for (size_t row = 0; !s->folds && row < rows; row++)
        order_row(s->values + row * STICK_LANES, pairs);
}
