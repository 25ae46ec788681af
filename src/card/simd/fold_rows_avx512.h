// SPDX-License-Identifier: Apache-2.0
//
// Sums of 16 rows to an element each. Where one row alone would combine a register with parts of
// itself, the same parts of two rows are side by side here, so that all lanes work at every step:
//
//     64 lanes of a row      a b | c d                   a + c, b + d
//     32: blocks of four     a0 a1 a2 a3 | b0 b1 b2 b3   a0+a2 a1+a3 b0+b2 b1+b3
//     16, of rows r and s                                ar br as bs
//      8, of four rows                                   a block is a row
//      4, 2: of eight, of all                            a lane is
//
// Each row's elements are combined in the order of FOLD.
enum { ROWS_TOGETHER = 16 };

#define BLOCKS(x, y, order) _mm512_shuffle_f32x4(x, y, order)
#define IN_BLOCKS(x, y, order) _mm512_shuffle_ps(x, y, order)
// Parts 0 and 1 of x and y beside parts 2 and 3; parts 0 and 2 beside 1 and 3.
#define COMBINE_HALVES(combine, turn, x, y) combine(turn(x, y, 0x44), turn(x, y, 0xEE))
#define COMBINE_NEIGHBOURS(combine, turn, x, y) combine(turn(x, y, 0x88), turn(x, y, 0xDD))

#define FOLD_TOGETHER(name, combine, alone)                                                   \
    static inline V name##_blocks(const float *row, size_t pairs)                             \
    {                                                                                         \
        V a = _mm512_loadu_ps(row), b = _mm512_loadu_ps(row + LANES);                         \
        if (pairs == 2) {                                                                     \
            a = combine(a, _mm512_loadu_ps(row + 2 * LANES));                                 \
            b = combine(b, _mm512_loadu_ps(row + 3 * LANES));                                 \
        }                                                                                     \
        return COMBINE_HALVES(combine, BLOCKS, a, b);                                         \
    }                                                                                         \
    static inline V name##_pair(const float *values, size_t row, size_t pairs)                \
    {                                                                                         \
        const V r = name##_blocks(values + row * STICK_LANES, pairs);                         \
        const V s = name##_blocks(values + (row + 4) * STICK_LANES, pairs);                   \
        return COMBINE_NEIGHBOURS(combine, BLOCKS, r, s);                                     \
    }                                                                                         \
    static void name(const float *values, size_t pairs, float *out)                           \
    {                                                                                         \
        V x[4];                                                                               \
        for (size_t n = 0; n < 4; n++) {                                                      \
            const V first = name##_pair(values, n, pairs);                                    \
            const V last = name##_pair(values, n + 8, pairs);                                 \
            x[n] = COMBINE_NEIGHBOURS(combine, BLOCKS, first, last);                          \
        }                                                                                     \
        x[0] = COMBINE_HALVES(combine, IN_BLOCKS, x[0], x[1]);                                \
        x[2] = COMBINE_HALVES(combine, IN_BLOCKS, x[2], x[3]);                                \
        _mm512_storeu_ps(out, COMBINE_NEIGHBOURS(combine, IN_BLOCKS, x[0], x[2]));            \
    }
