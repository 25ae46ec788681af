// SPDX-License-Identifier: Apache-2.0
//
// Rows of lanes from memory through one opfunc to memory, wholly in vector registers. simd_body.h
// holds the loops, written once over a small layer of vector functions; simd_portable.c,
// simd_avx2.c and simd_avx512.c are that layer for a host each. All variants give what the scalar
// definitions of tensor/opfunc.h give.
//
// Where fp32 registers do not suffice (card/simd/lanes.h) the opfunc runs in fp64. Its result goes
// to SEN169_FP16 through an fp32 that is cut, not rounded: half of the last place of SEN169_FP16 is
// an fp32 step, so rounding ties away from zero gives the same for a value and for the value cut.
#ifndef CARD_SIMD_H
#define CARD_SIMD_H

#include <stddef.h>

#include "card/simd/vector_program.h"
#include "tensor/opfunc.h"

typedef enum { SIMD_DL16, SIMD_F32 } simd_format;

// An operand: `planes` of `rows` runs each; how many bytes apart they begin.
typedef struct {
    uint8_t *at;                        // only operand 0 is written
    int64_t plane_stride, row_stride;
    simd_format format;
    bool repeats;                       // an input: one element for the whole run
} simd_operand;

typedef struct {
    size_t planes, rows, count;         // count: elements of a run
    simd_operand operand[1 + OPFUNC_MAX_INPUTS];
    uint32_t inputs;
    const float *constant;
} simd_rows;

// Operand 0 = op(inputs). An input may lie where operand 0 does, or not touch it.
typedef void simd_function(const simd_rows *s);

// accumulator[n] = combine(accumulator[n], in[n]), then the same with the run `step` bytes further,
// `depth` runs in all, and that `turns` times, `turn` bytes further each; `count` lanes. The same
// for `rows` accumulators and inputs that begin accumulator_row and in_row bytes apart;
// accumulators do not overlap.
typedef struct {
    float *accumulator;
    const uint8_t *in;
    simd_format format;
    size_t rows, count, depth, turns;
    int64_t accumulator_row, in_row, step, turn;
} simd_reduction;
typedef void simd_reducer(const simd_reduction *r);

// Folds values, a power of two from SIMD_LEAST_FOLD on, into the first by halves (ISA_FOLD).
typedef void simd_folder(float *values, size_t count);

// to[n] = table[from[n]] over SEN169_FP16 codes, 65,536 entries.
typedef void simd_lookup(uint8_t *to, const uint8_t *from, const uint16_t *table, size_t count);

// sums[row][lane] += fma over k of a[row][k] * b[k][lane], for rows of 1 to the table's few_rows
// and the first `wanted` lanes, 1 to 64; those behind may stay as they are.
// b are SEN169_FP16 codes, taken for the upper bits of an fp32 without moving their exponents, so
// that they are 2^-96 of their values; a are 2^96 of theirs, each below 2^32. False, and sums are
// undefined, where a code has no such fp32: the merged one, and those of the lowest exponent but
// zero.
//
// Rows of `sums` have 64 floats. Index k of row r of a is a[k / 64 * a_next + r * 64 + k % 64]. k
// comes in runs of `run`, which divides 64 or reaches all of k; each begins at a pointer of b, and
// its lines are `line` bytes apart. The second cache fetches what lies `ahead` bytes behind each.
#define SIMD_SCALE       0x1p96f
#define SIMD_SCALE_LIMIT 0x1p32f
typedef struct {
    float *sums;
    const float *a;
    size_t a_next;
    const uint8_t *const *b;
    int64_t line, ahead;
    size_t rows, depth, run, wanted;
} simd_product;
typedef bool simd_multiplier(const simd_product *p);
enum { SIMD_LANES = 64, SIMD_MOST_ROWS = 8, SIMD_LEAST_FOLD = 16 };

typedef struct {
    simd_function *f32[OPFUNC_COUNT], *f64[OPFUNC_COUNT];      // null: none
    simd_lookup *lookup;
    simd_reducer *reduce[SIMD_SUMS + 1];                       // null: none
    simd_folder *fold[SIMD_SUMS + 1];                          // null: none
    simd_multiplier *multiply;
    size_t few_rows;
    vector_runner *run_program;
    vector_checker *are_plain;
    bool has_exp;                                               // VECTOR_EXP
} simd_table;

extern const simd_table simd_portable, simd_avx2, simd_avx512;

// The variant that convert_variant() names.
const simd_table *simd_in_use(void);

// The function for an instruction's formats; null when there is none.
simd_function *simd_find(opfunc op, spyre_format result, const spyre_format *inputs,
                         uint32_t count);

// The sum of an accumulator.
simd_sum simd_sum_of(opfunc op);

// True for the formats that vector loops read and write.
bool simd_reads(spyre_format format, simd_format *out_format);

#endif
