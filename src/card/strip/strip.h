// SPDX-License-Identifier: Apache-2.0
//
// Rows of lanes from memory through one opfunc to memory, wholly in vector registers. strip_body.h
// holds the loops, written once over a small layer of vector functions; strip_portable.c,
// strip_avx2.c and strip_avx512.c are that layer for a host each. All variants give what the scalar
// definitions of tensor/opfunc.h give.
//
// Where fp32 registers do not suffice (card/strip/lanes.h) the opfunc runs in fp64. Its result goes
// to SEN169_FP16 through an fp32 that is cut, not rounded: half of the last place of SEN169_FP16 is
// an fp32 step, so rounding ties away from zero gives the same for a value and for the value cut.
#ifndef CARD_STRIP_H
#define CARD_STRIP_H

#include <stddef.h>

#include "card/strip/walk.h"
#include "tensor/opfunc.h"

typedef enum { STRIP_DL16, STRIP_F32 } strip_format;

// An operand: `planes` of `rows` runs each; how many bytes apart they begin.
typedef struct {
    uint8_t *at;                        // only operand 0 is written
    int64_t plane_stride, row_stride;
    strip_format format;
    bool repeats;                       // an input: one element for the whole run
} strip_operand;

typedef struct {
    size_t planes, rows, count;         // count: elements of a run
    strip_operand operand[1 + OPFUNC_MAX_INPUTS];
    uint32_t inputs;
    const float *constant;
} strip;

// Operand 0 = op(inputs). An input may lie where operand 0 does, or not touch it.
typedef void strip_function(const strip *s);

// accumulator[n] = combine(accumulator[n], in[n]), then the same with the run `step` bytes further,
// `depth` runs in all; `count` lanes. The same for `rows` accumulators and inputs that begin
// accumulator_row and in_row bytes apart; accumulators do not overlap.
typedef struct {
    float *accumulator;
    const uint8_t *in;
    strip_format format;
    size_t rows, count, depth;
    int64_t accumulator_row, in_row, step;
} strip_reduction;
typedef void strip_reducer(const strip_reduction *r);

// Folds 64 values into the first by halves (ISA_FOLD).
typedef void strip_folder(float *values);

// to[n] = table[from[n]] over SEN169_FP16 codes, 65,536 entries.
typedef void strip_lookup(uint8_t *to, const uint8_t *from, const uint16_t *table, size_t count);

// sums[row][lane] = fma over k of a[row][k] * b[k][lane], for rows of 1 to the table's few_rows and
// at most 64 of k. Rows of `sums` and `a` have 64 floats, lines of b 64 SEN169_FP16.
typedef struct {
    float *sums;
    const float *a;
    const uint8_t *b;
    size_t rows, depth;
} strip_product;
typedef void strip_multiplier(const strip_product *p);
enum { STRIP_LANES = 64, STRIP_MOST_ROWS = 8 };

typedef struct {
    strip_function *f32[OPFUNC_COUNT], *f64[OPFUNC_COUNT];      // null: none
    strip_function *quotient;                                   // REALDIV on SEN169_FP16
    strip_lookup *lookup;
    strip_reducer *sum, *max, *min, *square;
    strip_folder *fold_sum, *fold_max, *fold_min;
    strip_multiplier *multiply;
    size_t few_rows;
    walk_function *walk;
    bool has_exp;                                               // WALK_EXP
} strip_table;

extern const strip_table strip_portable, strip_avx2, strip_avx512;

// The variant that convert_variant() names.
const strip_table *strip_in_use(void);

// The function for an instruction's formats; null when there is none.
strip_function *strip_find(opfunc op, spyre_format result, const spyre_format *inputs,
                           uint32_t count);

// True for the formats that strips read and write.
bool strip_reads(spyre_format format, strip_format *out_format);

#endif
