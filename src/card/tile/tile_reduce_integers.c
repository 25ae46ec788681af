// SPDX-License-Identifier: Apache-2.0
//
// REDUCE and FOLD of int32. Neither the order of elements nor how many are joined at a time changes
// a result, so lines of accumulators stay in registers while they take line after line.
#include <string.h>

#include "base/target_clones.h"
#include "card/tile/runs.h"
#include "tensor/accumulate.h"

// Accumulators that a vector has, and side by side in registers.
enum { LANES = 16, VECTORS = 8 };

typedef uint32_t unsigned_lanes __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int32_t signed_lanes __attribute__((vector_size(LANES * sizeof(int32_t))));

// The lanes of a where the mask is all ones, else those of b.
#define CHOOSE(mask, a, b) (((a) & (unsigned_lanes)(mask)) | ((b) & ~(unsigned_lanes)(mask)))

// `count` accumulators, side by side, each of which takes `depth` elements, `step` bytes from one
// to the next. What is less than a vector is done in a part of one.
#define JOIN_LINES(name, result)                                                                \
    __attribute__((always_inline)) static inline void name##_some(                              \
        uint8_t *to, const uint8_t *from, int64_t step, size_t depth, size_t bytes)             \
    {                                                                                           \
        enum { VECTOR = sizeof(unsigned_lanes) };                                               \
        unsigned_lanes joined[VECTORS] = {0}, a, b = {0};                                       \
        const size_t count = (bytes + VECTOR - 1) / VECTOR;                                     \
        const size_t part = bytes < VECTOR ? bytes : VECTOR;                                    \
        for (size_t n = 0; n < count; n++) memcpy(&joined[n], to + n * VECTOR, part);           \
        for (size_t k = 0; k < depth; k++, from += step)                                        \
            for (size_t n = 0; n < count; n++) {                                                \
                memcpy(&b, from + n * VECTOR, part);                                            \
                a = joined[n];                                                                  \
                joined[n] = (result);                                                           \
            }                                                                                   \
        for (size_t n = 0; n < count; n++) memcpy(to + n * VECTOR, &joined[n], part);           \
    }                                                                                           \
    BASE_CLONES                                                                                 \
    static void name(uint8_t *to, const uint8_t *from, int64_t step, size_t depth,              \
                     size_t count)                                                              \
    {                                                                                           \
        enum { VECTOR = sizeof(unsigned_lanes), WIDE = VECTORS * VECTOR };                      \
        size_t left = count * sizeof(uint32_t);                                                 \
        for (; left >= WIDE; left -= WIDE, to += WIDE, from += WIDE)                            \
            name##_some(to, from, step, depth, WIDE);                                           \
        for (; left >= VECTOR; left -= VECTOR, to += VECTOR, from += VECTOR)                    \
            name##_some(to, from, step, depth, VECTOR);                                         \
        if (left) name##_some(to, from, step, depth, left);                                     \
    }

JOIN_LINES(add_lines, a + b)
JOIN_LINES(multiply_lines, a * b)
JOIN_LINES(raise_lines, CHOOSE((signed_lanes)a > (signed_lanes)b, a, b))
JOIN_LINES(lower_lines, CHOOSE((signed_lanes)a < (signed_lanes)b, a, b))

typedef void join_lines(uint8_t *to, const uint8_t *from, int64_t step, size_t depth,
                        size_t count);

static join_lines *lines_of(opfunc op)
{
    if (op == OPFUNC_SUM) return add_lines;
    if (op == OPFUNC_PROD) return multiply_lines;
    return op == OPFUNC_MAX ? raise_lines : lower_lines;
}

static void run_reduce_integers(const plan_tile *tile, uint8_t *const *address,
                                plan_scratch *scratch)
{
    (void)scratch;
    join_lines *join = lines_of(tile->instruction->op);
    bool repeats = tile->dim_count > 1 && outer_stride(tile, 1, 0) == 0;
    int64_t step = repeats ? outer_stride(tile, 1, 1) : 0;
    size_t depth = repeats ? (size_t)outer_extent(tile, 1) : 1;
    uint32_t inner = repeats ? 2 : 1;
    int64_t count = run_length(tile), bytes = count * (int64_t)sizeof(int32_t);
    // Rows whose accumulators and elements are neighbours are one.
    if (outer_stride(tile, inner, 0) == bytes && outer_stride(tile, inner, 1) == bytes)
        count *= outer_extent(tile, inner++);
    runs r;
    first_run(&r, tile, address, inner);
    do join(r.at[0], r.at[1], step, depth, (size_t)count);
    while (next_run(&r));
}

plan_executor tile_reduce_integers(const plan_tile *tile)
{
    const bool dense = run_stride(tile, 0) == sizeof(int32_t) &&
                       run_stride(tile, 1) == sizeof(int32_t);
    return (plan_executor){dense ? run_reduce_integers : exact_run, NEEDS_APART};
}

void tile_fold_integers(opfunc op, uint8_t *values, size_t count)
{
    join_lines *join = lines_of(op);
    int32_t last[LANES];
    size_t half = count / 2;
    for (; half >= LANES; half /= 2) join(values, values + half * sizeof *last, 0, 1, half);
    const size_t left = 2 * half * sizeof *last;
    memcpy(last, values, left);
    for (; half > 0; half /= 2)
        for (size_t n = 0; n < half; n++) last[n] = accumulate_integer(op, last[n], last[n + half]);
    memcpy(values, last, left);
}
