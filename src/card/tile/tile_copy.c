// SPDX-License-Identifier: Apache-2.0
//
// Copies: LOAD, STORE and VECTOR between equal formats. Where the elements that are neighbours in
// one operand are not in the other, planes are transposed in blocks.
#include <string.h>

#include "base/target_clones.h"
#include "card/tile/runs.h"
#include "tensor/convert.h"

enum { FEW_WORDS = 16 };

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

// Every second, third or fourth word, or all in reverse: strides that the compiler knows are loads
// of neighbours and a choice among them.
#define EVERY(step)                                                                          \
    for (int64_t n = 0; n < count; n++) {                                                    \
        uint16_t word;                                                                       \
        memcpy(&word, from + (step) * n * (int64_t)sizeof word, sizeof word);                \
        memcpy(to + n * (int64_t)sizeof word, &word, sizeof word);                           \
    }                                                                                        \
    return true

BASE_CLONES
static bool copy_near_words(uint8_t *restrict to, const uint8_t *restrict from,
                            int64_t from_stride, int64_t count)
{
    switch (from_stride / (int64_t)sizeof(uint16_t)) {
    case -1: EVERY(-1);
    case 2: EVERY(2);
    case 3: EVERY(3);
    case 4: EVERY(4);
    default: return false;
    }
}

// Whether the two runs share no byte, the first one of neighbours.
static bool words_apart(const uint8_t *to, const uint8_t *from, int64_t from_stride,
                        int64_t count)
{
    const int64_t reach = from_stride * (count - 1), bytes = sizeof(uint16_t);
    const uint8_t *low = reach < 0 ? from + reach : from, *high = reach < 0 ? from : from + reach;
    return high + bytes <= to || to + count * bytes <= low;
}

void copy_elements(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride,
                   int64_t count, uint32_t bytes)
{
    if (to_stride == bytes && from_stride == bytes) {
        if (to != from) memcpy(to, from, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1: copy_uint8_t(to, to_stride, from, from_stride, count); return;
    case 2:
        if (to_stride == 2 && from_stride % 2 == 0 && words_apart(to, from, from_stride, count) &&
            copy_near_words(to, from, from_stride, count))
            return;
        copy_uint16_t(to, to_stride, from, from_stride, count);
        return;
    case 4: copy_uint32_t(to, to_stride, from, from_stride, count); return;
    case 8: copy_uint64_t(to, to_stride, from, from_stride, count); return;
    default:
        for (int64_t n = 0; n < count; n++)
            memcpy(to + n * to_stride, from + n * from_stride, bytes);
    }
}

// Runs of neighbours, all `bytes` long, one after the other. Short ones are moved in registers, by
// sticks: what a call costs is most of so short a copy, and of some KB the C library makes a copy
// by microcode, at half the speed of a loop as long as the host has both sides in its cache, and at
// a sixth where the two lie otherwise in its lines.
BASE_CLONES
static void copy_runs(uint8_t *to, int64_t to_step, const uint8_t *from, int64_t from_step,
                      int64_t count, size_t bytes)
{
    enum { STICK = SPYRE_STICK_BYTES, HALF = STICK / 2, LONG = 64 * STICK, LINE = 64 };
    const bool alike = ((uintptr_t)to - (uintptr_t)from) % LINE == 0;
    const size_t sticks = bytes < LONG || !alike ? bytes / STICK * STICK : 0, rest = bytes - sticks;
    for (int64_t n = 0; n < count; n++, to += to_step, from += from_step) {
        for (size_t at = 0; at < sticks; at += STICK) memcpy(to + at, from + at, STICK);
        if (rest == HALF) memcpy(to + sticks, from + sticks, HALF);
        else if (rest) memcpy(to + sticks, from + sticks, rest);
    }
}

// Lines of a few words that are no neighbours, where a call for each would be most of the time.
BASE_CLONES
static void copy_words(uint8_t *to, const int64_t to_step[2], const uint8_t *from,
                       const int64_t from_step[2], int64_t lines, int64_t count)
{
    for (int64_t n = 0; n < lines; n++, to += to_step[0], from += from_step[0])
        for (int64_t i = 0; i < count; i++) {
            uint16_t word;
            memcpy(&word, from + i * from_step[1], sizeof word);
            memcpy(to + i * to_step[1], &word, sizeof word);
        }
}

static void run_copy(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    uint32_t bytes = spyre_format_bytes(tile->instruction->operand[0].format);
    int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    int64_t lines = outer_extent(tile, 1), step[2];
    for (uint32_t o = 0; o < 2; o++) step[o] = outer_stride(tile, 1, o);
    bool dense = to == bytes && from == bytes && runs_disjoint(tile, address, 0, 1);
    bool words = !dense && bytes == sizeof(uint16_t) && count <= FEW_WORDS;
    bool streams = dense && runs_stream(tile, address[0]);
    runs r;
    first_run(&r, tile, address, 2);
    do {
        if (streams)
            convert_stream_lines(r.at[0], step[0], r.at[1], step[1], (size_t)lines,
                                 (size_t)(count * bytes));
        else if (dense)
            copy_runs(r.at[0], step[0], r.at[1], step[1], lines, (size_t)(count * bytes));
        else if (words)
            copy_words(r.at[0], (int64_t[]){step[0], to}, r.at[1], (int64_t[]){step[1], from},
                       lines, count);
        for (int64_t n = 0; n < lines && !dense && !words; n++)
            copy_elements(r.at[0] + n * step[0], to, r.at[1] + n * step[1], from, count, bytes);
    } while (next_run(&r));
    if (streams) convert_stream_end();
}

// --- Transposing

// Blocks of 8 lines of 8 words are transposed four at once, a lane of 128 bits each: what they make
// of 32 lines is a line of the host's cache.
enum { BLOCK = 8, LANES = 4, LINES = LANES * BLOCK };
#define INLINED __attribute__((always_inline)) static inline
typedef uint16_t words __attribute__((vector_size(2 * BLOCK)));
typedef uint16_t wide_words __attribute__((vector_size(2 * LINES)));

INLINED words load_words(const uint8_t *from)
{
    words w;
    memcpy(&w, from, sizeof w);
    return w;
}

// Functions of such wide values would be called in different ways on different hosts.
#define PAIRED(a, b) \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define FOUR(a, b, c, d)                                                                        \
    __builtin_shufflevector(PAIRED(a, b), PAIRED(c, d), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,   \
                            12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, \
                            29, 30, 31)

// Interleave halves of the lanes of a and b.
#define LOW(a, b)                                                                               \
    __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 8, 40, 9, 41, 10, 42, 11, 43, 16, \
                            48, 17, 49, 18, 50, 19, 51, 24, 56, 25, 57, 26, 58, 27, 59)
#define HIGH(a, b)                                                                              \
    __builtin_shufflevector(a, b, 4, 36, 5, 37, 6, 38, 7, 39, 12, 44, 13, 45, 14, 46, 15, 47,   \
                            20, 52, 21, 53, 22, 54, 23, 55, 28, 60, 29, 61, 30, 62, 31, 63)

// Words of lines `step` apart, in a lane each.
INLINED void load_lanes(wide_words *to, const uint8_t *from, int64_t step)
{
    *to = FOUR(load_words(from), load_words(from + step), load_words(from + 2 * step),
               load_words(from + 3 * step));
}

// Interleaving each line with the one half the block further, three times, transposes.
INLINED void transpose_lanes(wide_words *a)
{
    for (int round = 0; round < 3; round++) {
        wide_words b[BLOCK];
        for (int n = 0; n < BLOCK / 2; n++) {
            b[2 * n] = LOW(a[n], a[n + BLOCK / 2]);
            b[2 * n + 1] = HIGH(a[n], a[n + BLOCK / 2]);
        }
        for (int n = 0; n < BLOCK; n++) a[n] = b[n];
    }
}

// to[row][n] = from[n][row] of 8 rows and 32 lines; each row is a line of the host's cache, past
// which they may go.
INLINED void transpose_lines(uint8_t *to, int64_t to_line, const uint8_t *from, int64_t from_line,
                             bool streams)
{
    wide_words a[BLOCK];
    for (int n = 0; n < BLOCK; n++) load_lanes(&a[n], from + n * from_line, BLOCK * from_line);
    transpose_lanes(a);
    if (streams) convert_stream_lines(to, to_line, a, sizeof a[0], BLOCK, sizeof a[0]);
    for (int n = 0; n < BLOCK && !streams; n++) memcpy(to + n * to_line, &a[n], sizeof a[n]);
}

// Of 8 rows and 8 lines, the same four times.
INLINED void transpose_block(uint8_t *to, int64_t to_line, const uint8_t *from, int64_t from_line)
{
    wide_words a[BLOCK];
    for (int n = 0; n < BLOCK; n++) load_lanes(&a[n], from + n * from_line, 0);
    transpose_lanes(a);
    for (int n = 0; n < BLOCK; n++) memcpy(to + n * to_line, &a[n], sizeof(words));
}

// Where the block behind the one at `at` begins: the last one ends with all, over some of the one
// before it.
INLINED int64_t block_behind(int64_t at, int64_t block, int64_t all)
{
    return at + 2 * block > all && at + block < all ? all - block : at + block;
}

typedef struct {
    int64_t rows, count;
    bool streams;
} plane;

// to[row][n] = from[n][row], of elements of two bytes. What 32 rows have of a line of the host's
// cache is read at once.
BASE_CLONES
static void transpose_plane(uint8_t *to, int64_t to_line, const uint8_t *from, int64_t from_line,
                            const plane *p)
{
    const int64_t rows = p->rows, count = p->count;
    const int64_t block = count < LINES ? BLOCK : LINES;
    const bool small = rows < BLOCK || count < BLOCK;
    for (int64_t row = 0; small && row < rows; row++)
        copy_uint16_t(to + row * to_line, 2, from + 2 * row, from_line, count);
    for (int64_t first = 0; !small && first < rows; first += LINES) {
        const int64_t end = first + LINES < rows ? first + LINES : rows;
        const int64_t begin = end - first < BLOCK ? end - BLOCK : first;
        for (int64_t n = 0; n < count; n = block_behind(n, block, count))
            for (int64_t row = begin; row < end; row = block_behind(row, BLOCK, end)) {
                uint8_t *there = to + row * to_line + 2 * n;
                const uint8_t *here = from + n * from_line + 2 * row;
                if (block == LINES) transpose_lines(there, to_line, here, from_line, p->streams);
                else transpose_block(there, to_line, here, from_line);
            }
    }
}

static void run_transpose(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const plane p = {outer_extent(tile, 1), run_length(tile), runs_stream(tile, address[0])};
    runs r;
    first_run(&r, tile, address, 2);
    do transpose_plane(r.at[0], outer_stride(tile, 1, 0), r.at[1], run_stride(tile, 1), &p);
    while (next_run(&r));
    if (p.streams) convert_stream_end();
}

// --- Interleaving: of two bytes, a few lines have their elements in turn on one side

// Pairs on one side, two lines on the other.
BASE_CLONES
static void pair_lines(uint8_t *restrict to, const uint8_t *restrict first,
                       const uint8_t *restrict second, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        uint16_t a, b;
        memcpy(&a, first + 2 * n, sizeof a);
        memcpy(&b, second + 2 * n, sizeof b);
        memcpy(to + 4 * n, &a, sizeof a);
        memcpy(to + 4 * n + 2, &b, sizeof b);
    }
}

BASE_CLONES
static void part_pairs(uint8_t *restrict first, uint8_t *restrict second,
                       const uint8_t *restrict from, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        uint16_t a, b;
        memcpy(&a, from + 4 * n, sizeof a);
        memcpy(&b, from + 4 * n + 2, sizeof b);
        memcpy(first + 2 * n, &a, sizeof a);
        memcpy(second + 2 * n, &b, sizeof b);
    }
}

static void run_interleave(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch)
{
    (void)scratch;
    const int64_t to = run_stride(tile, 0), from = run_stride(tile, 1), count = run_length(tile);
    const int64_t lines = outer_extent(tile, 1);
    const int64_t to_line = outer_stride(tile, 1, 0), from_line = outer_stride(tile, 1, 1);
    runs r;
    first_run(&r, tile, address, 2);
    do {
        if (lines == 2 && to == 4) pair_lines(r.at[0], r.at[1], r.at[1] + from_line, count);
        else if (lines == 2) part_pairs(r.at[0], r.at[0] + to_line, r.at[1], count);
        for (int64_t n = 0; lines != 2 && n < lines; n++)
            copy_uint16_t(r.at[0] + n * to_line, to, r.at[1] + n * from_line, from, count);
    } while (next_run(&r));
}

// The dim along which an operand's elements are neighbours, at least so many; or ISA_MAX_DIMS.
static uint32_t dense_dim(const plan_tile *tile, uint32_t operand, int64_t least)
{
    for (uint32_t d = 0; d < tile->dim_count; d++)
        if (tile->stride[operand][d] == 2 && tile->extent[d] >= least) return d;
    return ISA_MAX_DIMS;
}

// `few` are neighbours in one operand, around the elements of `many`, neighbours in the other.
static bool interleaves(const plan_tile *tile, uint32_t few, uint32_t many, uint32_t operand)
{
    return few != many && few != ISA_MAX_DIMS && many != ISA_MAX_DIMS &&
           tile->extent[few] < BLOCK && tile->extent[many] >= BLOCK &&
           tile->stride[operand][many] == 2 * tile->extent[few];
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
    if (best != ISA_MAX_DIMS) plan_swap_dims(tile, best, last - 1);
}

plan_executor tile_copy(plan_tile *tile)
{
    const bool of_words = spyre_format_bytes(tile->instruction->operand[0].format) == 2;
    uint32_t last = tile->dim_count - 1;
    uint32_t to = dense_dim(tile, 0, 2), from = dense_dim(tile, 1, 2);
    const bool pairs = interleaves(tile, to, from, 0), parts = interleaves(tile, from, to, 1);
    if (of_words && (pairs || parts)) {
        const uint32_t few = pairs ? to : from, many = pairs ? from : to;
        plan_swap_dims(tile, many, last);
        plan_swap_dims(tile, few == last ? many : few, last - 1);
        return (plan_executor){run_interleave, NEEDS_APART};
    }
    to = dense_dim(tile, 0, BLOCK), from = dense_dim(tile, 1, BLOCK);
    const bool turns = of_words && to != from && to != ISA_MAX_DIMS && from != ISA_MAX_DIMS;
    if (!turns) {
        lengthen_lines(tile);
        return (plan_executor){run_copy, NEEDS_INDEPENDENT};
    }
    // The order of dims does not matter to elements that are independent.
    plan_swap_dims(tile, to, last);
    plan_swap_dims(tile, from == last ? to : from, last - 1);
    return (plan_executor){run_transpose, NEEDS_INDEPENDENT};
}
