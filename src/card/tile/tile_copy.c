// SPDX-License-Identifier: Apache-2.0
//
// Copies: LOAD, STORE and VECTOR between equal formats. Where the elements that are neighbours in
// one operand are not in the other, planes are transposed in blocks.
#include <string.h>

#include "base/clones.h"
#include "card/tile/runs.h"

#define COPY_STRIDED(type)                                                                   \
    static void copy_##type(uint8_t *to, int64_t to_stride, const uint8_t *from,             \
                            int64_t from_stride, int64_t count)                              \
    {                                                                                        \
        type value;                                                                          \
        if (from_stride == 0 && to_stride == sizeof value) {                                 \
            memcpy(&value, from, sizeof value);                                              \
            for (int64_t n = 0; n < count; n++)                                              \
                memcpy(to + n * (int64_t)sizeof value, &value, sizeof value);                \
            return;                                                                          \
        }                                                                                    \
        for (int64_t n = 0; n < count; n++) {                                                \
            memcpy(&value, from + n * from_stride, sizeof value);                            \
            memcpy(to + n * to_stride, &value, sizeof value);                                \
        }                                                                                    \
    }
COPY_STRIDED(uint8_t)
COPY_STRIDED(uint16_t)
COPY_STRIDED(uint32_t)
COPY_STRIDED(uint64_t)

void copy_elements(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
                   int64_t count, uint32_t bytes)
{
    if (to_stride == bytes && from_stride == bytes) {
        if (to != from) memcpy(to, from, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1: copy_uint8_t(to, to_stride, from, from_stride, count); return;
    case 2: copy_uint16_t(to, to_stride, from, from_stride, count); return;
    case 4: copy_uint32_t(to, to_stride, from, from_stride, count); return;
    case 8: copy_uint64_t(to, to_stride, from, from_stride, count); return;
    default:
        for (int64_t n = 0; n < count; n++)
            memcpy(to + n * to_stride, from + n * from_stride, bytes);
    }
}

// Runs of neighbours, all `bytes` long, one after the other. Short ones are moved in registers, by
// sticks: what a call costs is most of so short a copy, and of some KB the C library makes a copy
// by microcode, at half the speed of a loop as long as the host has both sides in its cache.
BASE_CLONES
static void copy_runs(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                      int64_t count, size_t bytes)
{
    enum { STICK = SPYRE_STICK_BYTES, HALF = STICK / 2, LONG = 64 * STICK };
    const size_t sticks = bytes < LONG ? bytes / STICK * STICK : 0, rest = bytes - sticks;
    for (int64_t n = 0; n < count; n++, to += to_step, from += from_step) {
        for (size_t at = 0; at < sticks; at += STICK) memcpy(to + at, from + at, STICK);
        if (rest == HALF) memcpy(to + sticks, from + sticks, HALF);
        else if (rest) memcpy(to + sticks, from + sticks, rest);
    }
}

static void run_copy(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!plan_independent(tile, address, 1)) {
        exact_run(tile, address, scratch);
        return;
    }
    uint32_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    int64_t lines = outer_extent(tile, 1), step[2];
    for (uint32_t o = 0; o < 2; o++) step[o] = outer_stride(tile, 1, o);
    bool dense = to == bytes && from == bytes && runs_disjoint(tile, address, 0, 1);
    runs r;
    first_run(&r, tile, address, 2);
    do {
        if (dense)
            copy_runs(r.at[0], step[0], r.at[1], step[1], lines, (size_t)(count * bytes));
        for (int64_t n = 0; n < lines && !dense; n++)
            copy_elements(r.at[0] + n * step[0], to, r.at[1] + n * step[1], from, count, bytes);
    } while (next_run(&r));
}

// --- Transposing

enum { BLOCK = 8 };
typedef uint16_t words __attribute__((vector_size(2 * BLOCK)));

static inline words load_words(const uint8_t *from)
{
    words w;
    memcpy(&w, from, sizeof w);
    return w;
}

// Interleaves halves of a and b.
static inline words low(words a, words b)
{
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

static inline words high(words a, words b)
{
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

// Interleaving each line with the one half the block further, three times, transposes.
static void transpose_block(uint8_t *to, int64_t to_line, const uint8_t *from, int64_t from_line)
{
    words a[BLOCK], b[BLOCK];
    for (int n = 0; n < BLOCK; n++) a[n] = load_words(from + n * from_line);
    for (int round = 0; round < 3; round++) {
        for (int n = 0; n < BLOCK / 2; n++) {
            b[2 * n] = low(a[n], a[n + BLOCK / 2]);
            b[2 * n + 1] = high(a[n], a[n + BLOCK / 2]);
        }
        memcpy(a, b, sizeof a);
    }
    for (int n = 0; n < BLOCK; n++) memcpy(to + n * to_line, &a[n], sizeof a[n]);
}

// to[row][n] = from[n][row], lines and elements of two bytes.
static void transpose_plane(uint8_t *to, int64_t to_line, const uint8_t *from, int64_t from_line,
                            int64_t rows, int64_t count)
{
    int64_t blocks = count / BLOCK * BLOCK, row = 0;
    for (; row + BLOCK <= rows; row += BLOCK) {
        for (int64_t n = 0; n < blocks; n += BLOCK)
            transpose_block(to + row * to_line + 2 * n, to_line, from + n * from_line + 2 * row,
                            from_line);
        for (int64_t rest = row; rest < row + BLOCK; rest++)
            copy_uint16_t(to + rest * to_line + 2 * blocks, 2, from + blocks * from_line + 2 * rest,
                          from_line, count - blocks);
    }
    for (; row < rows; row++)
        copy_uint16_t(to + row * to_line, 2, from + 2 * row, from_line, count);
}

static void run_transpose(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    if (!plan_independent(tile, address, 1)) {
        exact_run(tile, address, scratch);
        return;
    }
    runs r;
    first_run(&r, tile, address, 2);
    do transpose_plane(r.at[0], outer_stride(tile, 1, 0), r.at[1], run_stride(tile, 1),
                       outer_extent(tile, 1), run_length(tile));
    while (next_run(&r));
}

// The dim along which an operand's elements are neighbours, or ISA_MAX_DIMS.
static uint32_t dense_dim(const plan_tile *tile, uint32_t operand)
{
    for (uint32_t d = 0; d < tile->dim_count; d++)
        if (tile->stride[operand][d] == 2 && tile->extent[d] >= BLOCK) return d;
    return ISA_MAX_DIMS;
}

// Puts next to the innermost dim the longest of those whose runs lie one behind the other in an
// operand: memory is read or written in order, and the loop is worth its beginning.
static void lengthen_lines(plan_tile *tile)
{
    uint32_t last = tile->dim_count - 1, best = ISA_MAX_DIMS;
    int64_t bytes = spyre_format_bytes(tile->instruction->operand[0].format) * run_length(tile);
    for (uint32_t d = 0; d < last; d++) {
        bool next = tile->stride[0][d] == bytes || tile->stride[1][d] == bytes;
        if (next && (best == ISA_MAX_DIMS || tile->extent[d] > tile->extent[best])) best = d;
    }
    if (best != ISA_MAX_DIMS) runs_swap_dims(tile, best, last - 1);
}

plan_run *tile_copy(plan_tile *tile)
{
    uint32_t last = tile->dim_count - 1, to = dense_dim(tile, 0), from = dense_dim(tile, 1);
    bool turns = spyre_format_bytes(tile->instruction->operand[0].format) == 2 && to != from &&
                 to != ISA_MAX_DIMS && from != ISA_MAX_DIMS;
    if (!turns) {
        lengthen_lines(tile);
        return run_copy;
    }
    // The order of dims does not matter to elements that are independent.
    runs_swap_dims(tile, to, last);
    runs_swap_dims(tile, from == last ? to : from, last - 1);
    return run_transpose;
}
