// SPDX-License-Identifier: Apache-2.0
//
// Reductions over the layer that card/simd/simd_body.h describes, whose part this is. The
// accumulators of several rows stay in registers while their runs pass by, so that what lies side
// by side in memory is read together. The layer says how many rows: BLOCK_ROWS.
//
// What comes next in memory is a stick of the same rows, often in another page, where the host does
// not look ahead by itself.
enum { AHEAD = 4 };                         // sticks
enum { BLOCK_LANES = 64, BLOCK_STEPS = BLOCK_LANES / STEP };

#define ADD_UP(a, b)     ((a) + (b))
#define MULTIPLY(a, b)   ((a) * (b))
#define ADD_SQUARE(a, b) ((a) + (b) * (b))
// Of values of SEN169_FP16, whose squares fp32 holds exactly.
#define ADD_EXACT_SQUARE(a, b) v_fma(b, b, a)
// A NaN of the accumulator wins over one of the value; equal values (zeros) give the value.
#define NAN_FIRST(a, b, x) v_pick(v_unordered(a, a), a, v_pick(v_unordered(b, b), b, x))
#define LARGEST(a, b)      NAN_FIRST(a, b, v_max(a, b))
#define SMALLEST(a, b)     NAN_FIRST(a, b, v_min(a, b))
#define AS_IT_IS(a, x)     ((void)(a), (x))
#define NAN_STAYS(a, x)    v_pick(v_unordered(a, a), a, x)

ALWAYS_INLINE pair load_quiet(const uint8_t *at)
{
    pair x = {v_load(at), v_load(at + 4 * LANES)};
    return (pair){v_quieten(x.a), v_quieten(x.b)};
}

// What is left of a run of elements may be read as a whole step where that ends, or begins, with
// its stick: `at` is where the rest begins, or ends.
static inline bool has_whole_steps(const simd_reduction *r, const uint8_t *at)
{
    const uint64_t places = (uint64_t)(uintptr_t)at | (uint64_t)r->step | (uint64_t)r->turn |
                            (uint64_t)r->in_row;
    return places % (STEP * element_bytes(r->format)) == 0;
}

// The runs that accumulators take, in their order: `at` goes from one to the next.
#define EACH_RUN(r, at)                                                                        \
    for (size_t turn = 0; turn < (r)->turns;                                                   \
         turn++, at += (r)->turn - (int64_t)(r)->depth * (r)->step)                            \
        for (size_t k = 0; k < (r)->depth; k++, at += (r)->step)

// SEN169_FP16 has no NaN, so its values go through `plain`, and `stays` (a, the result) puts a NaN
// of the accumulator back.
#define REDUCER(name, combine, plain, stays)                                                   \
    ALWAYS_INLINE void name##_dl16(const simd_reduction *r, uint8_t *sums, const uint8_t *in, \
                                   size_t rows, size_t steps)                                  \
    {                                                                                          \
        pair sum[BLOCK_ROWS][BLOCK_STEPS];                                                     \
        for (size_t row = 0; row < rows; row++)                                                \
            for (size_t n = 0; n < steps; n++)                                                 \
                sum[row][n] = pair_load_f32(SUM_AT);                                           \
        EACH_RUN(r, in)                                                                        \
        {                                                                                      \
            for (size_t row = 0; row < rows; row++) {                                          \
                const uint8_t *at = in + (int64_t)row * r->in_row;                             \
                __builtin_prefetch(at + AHEAD * r->step);                                      \
                __builtin_prefetch(at + AHEAD * r->step + 64);                                 \
                for (size_t n = 0; n < steps; n++) {                                           \
                    pair x = pair_load_dl16(at + n * STEP * 2);                                \
                    sum[row][n] = (pair){plain(sum[row][n].a, x.a), plain(sum[row][n].b, x.b)};\
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
        for (size_t row = 0; row < rows; row++) {                                              \
            for (size_t n = 0; n < steps; n++) {                                               \
                pair first = pair_load_f32(SUM_AT), s = sum[row][n];                           \
                pair_store_f32(SUM_AT, (pair){stays(first.a, s.a), stays(first.b, s.b)});      \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_f32(const simd_reduction *r, uint8_t *sums, const uint8_t *in,  \
                                  size_t rows, size_t steps)                                   \
    {                                                                                          \
        for (size_t row = 0; row < rows; row++) {                                              \
            for (size_t n = 0; n < steps; n++) {                                               \
                pair sum = load_same(SUM_AT, SIMD_F32, 0);                                    \
                const uint8_t *at = in + (int64_t)row * r->in_row + n * STEP * 4;              \
                EACH_RUN(r, at)                                                                \
                {                                                                              \
                    pair x = load_quiet(at);                                                   \
                    sum = (pair){combine(sum.a, x.a), combine(sum.b, x.b)};                    \
                }                                                                              \
                store_same(SUM_AT, SIMD_F32, 0, sum);                                         \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_block(const simd_reduction *r, uint8_t *sums,                   \
                                    const uint8_t *in, size_t rows, size_t steps)              \
    {                                                                                          \
        if (r->format == SIMD_DL16) name##_dl16(r, sums, in, rows, steps);                    \
        else name##_f32(r, sums, in, rows, steps);                                             \
    }                                                                                          \
    static void name##_rest(const simd_reduction *r, uint8_t *sums, const uint8_t *in,        \
                            size_t count)                                                      \
    {                                                                                          \
        simd_reduction one = *r;                                                               \
        uint8_t step[STEP * 4] = {0};                                                          \
        one.depth = one.turns = 1;                                                             \
        EACH_RUN(r, in)                                                                        \
        {                                                                                      \
            memcpy(step, in, count * element_bytes(r->format));                                \
            name##_block(&one, sums, step, 1, 1);                                              \
        }                                                                                      \
    }                                                                                          \
    ALWAYS_INLINE void name##_rows(const simd_reduction *r, size_t row, size_t rows)          \
    {                                                                                          \
        uint8_t *sums = (uint8_t *)r->accumulator + (int64_t)row * r->accumulator_row;         \
        const uint8_t *in = r->in + (int64_t)row * r->in_row;                                  \
        size_t n = 0, bytes = element_bytes(r->format);                                        \
        for (; n + BLOCK_LANES <= r->count; n += BLOCK_LANES)                                  \
            name##_block(r, sums + 4 * n, in + n * bytes, rows, BLOCK_STEPS);                  \
        for (; n + STEP <= r->count; n += STEP)                                                \
            name##_block(r, sums + 4 * n, in + n * bytes, rows, 1);                            \
        const size_t left = r->count - n;                                                      \
        const bool begins = has_whole_steps(r, in + n * bytes);                                \
        const bool ends = !begins && has_whole_steps(r, in + r->count * bytes);                \
        const size_t before = ends ? STEP - left : 0;                                          \
        for (size_t at = 0; at < rows && left; at++) {                                         \
            uint8_t rest[STEP * 4] = {0}, *to = sums + (int64_t)at * r->accumulator_row + 4 * n;\
            const uint8_t *from = in + (int64_t)at * r->in_row + n * bytes;                    \
            memcpy(rest + 4 * before, to, 4 * left);                                           \
            if (begins || ends) name##_block(r, rest, from - before * bytes, 1, 1);            \
            else name##_rest(r, rest, from, left);                                             \
            memcpy(to, rest + 4 * before, 4 * left);                                           \
        }                                                                                      \
    }                                                                                          \
    static void name(const simd_reduction *r)                                                 \
    {                                                                                          \
        size_t row = 0;                                                                        \
        for (; row + BLOCK_ROWS <= r->rows; row += BLOCK_ROWS) name##_rows(r, row, BLOCK_ROWS);\
        for (; row < r->rows; row++) name##_rows(r, row, 1);                                   \
    }
#define SUM_AT (sums + (int64_t)row * r->accumulator_row + n * STEP * 4)

REDUCER(reduce_sum, ADD_UP, ADD_UP, AS_IT_IS)
REDUCER(reduce_square, ADD_SQUARE, ADD_EXACT_SQUARE, AS_IT_IS)
REDUCER(reduce_product, MULTIPLY, MULTIPLY, AS_IT_IS)
REDUCER(reduce_max, LARGEST, v_max, NAN_STAYS)
REDUCER(reduce_min, SMALLEST, v_min, NAN_STAYS)

// --- Folds

// Lanes [0, half) of x with the half behind them; the others stay.
#define HALF_OF(x, half, combine)                                                              \
    v_pick(v_less(lane_numbers, v_set((float)(half))), combine(x, v_lanes_behind(x, half)), x)
#define FOLDER(name, combine)                                                                  \
    static void name(float *values, size_t count)                                              \
    {                                                                                          \
        static const float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; \
        const V lane_numbers = v_load((const uint8_t *)numbers);                               \
        for (size_t half = count / 2; half >= LANES; half /= 2) {                              \
            for (size_t n = 0; n < half; n += LANES) {                                         \
                uint8_t *at = (uint8_t *)(values + n);                                         \
                v_store(at, combine(v_load(at), v_load(at + 4 * half)));                       \
            }                                                                                  \
        }                                                                                      \
        V first = v_load((const uint8_t *)values);                                             \
        for (int half = LANES / 2; half > 0; half /= 2)                                        \
            first = HALF_OF(first, half, combine);                                             \
        v_store((uint8_t *)values, first);                                                     \
    }
FOLDER(fold_sum, ADD_UP)
FOLDER(fold_product, MULTIPLY)
FOLDER(fold_max, LARGEST)
FOLDER(fold_min, SMALLEST)
