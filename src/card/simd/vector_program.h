// SPDX-License-Identifier: Apache-2.0
//
// Vector programs: a short list of steps for every stick of a block of rows, done in vector
// registers. A stick is 64 elements, of SEN169_FP16 side by side, of IEEE_FP32 as two runs of 32,
// the second of which may lie anywhere; its values are fp32 in two registers' worth, x and y.
// Whoever builds a vector program sees to it that every value is rounded as the instruction it
// stands for would. program_body.h holds the loops for each host, card/codegen writes them.
#ifndef CARD_VECTOR_PROGRAM_H
#define CARD_VECTOR_PROGRAM_H

#include <math.h>
#include <stddef.h>

#include "tensor/opfunc.h"

typedef enum {
#define VECTOR_ROW(name, wants, gives, at, meaning) VECTOR_##name,
#include "card/simd/vector_op.def"
#undef VECTOR_ROW
    VECTOR_APPLY,
    VECTOR_APPLY_F32 = VECTOR_APPLY + OPFUNC_COUNT,
    VECTOR_FORMULA = VECTOR_APPLY_F32 + OPFUNC_COUNT,
    VECTOR_HELD = VECTOR_FORMULA + OPFUNC_COUNT,
} vector_op;

// One unit's values, for later steps of the same program: in slots.
enum { VECTOR_SLOTS = 32 };
#define VECTOR_HOLD_X(slot) (VECTOR_HELD + 4 * (slot))          // slot = x
#define VECTOR_HOLD_Y(slot) (VECTOR_HELD + 4 * (slot) + 1)      // slot = y
#define VECTOR_HELD_X(slot) (VECTOR_HELD + 4 * (slot) + 2)      // x = slot
#define VECTOR_HELD_Y(slot) (VECTOR_HELD + 4 * (slot) + 3)      // y = slot

// What a step does to x afterwards.
typedef enum {
    VECTOR_AS_IS,
    VECTOR_SIGNIFICAND,                 // to the bits of SEN169_FP16; of any exponent, NaN stays
    VECTOR_ROUND,                       // to SEN169_FP16
} vector_rounding;

typedef enum { VECTOR_NONE, VECTOR_X, VECTOR_Y } vector_register;

// Elements and what is listed like them come first, then the others that have a place in a program.
typedef enum {
    VECTOR_ELEMENTS, VECTOR_READY, VECTOR_SPREAD,
    VECTOR_ROWS, VECTOR_LINE,
    VECTOR_KEPT, VECTOR_SUMS, VECTOR_NOWHERE,
} vector_place;

// A row of vector_op.def.
typedef struct {
    const char *name;
    vector_rounding wants;
    vector_register gives;
    vector_place at;
} vector_op_info;
const vector_op_info *vector_describe(uint32_t op);

// True for ops that have a place, in memory or LX; of them, those that store there.
static inline bool vector_takes_elements(uint32_t op)
{
    return vector_describe(op)->at <= VECTOR_LINE;
}

static inline bool vector_stores(uint32_t op)
{
    const vector_op_info *info = vector_describe(op);
    return info->at == VECTOR_ELEMENTS && info->gives == VECTOR_NONE;
}

// True for ops that take one element a row; for ops that keep a value for others.
static inline bool vector_takes_rows(uint32_t op)
{
    return vector_describe(op)->at == VECTOR_ROWS;
}

static inline bool vector_keeps(uint32_t op)
{
    const vector_op_info *info = vector_describe(op);
    return info->at == VECTOR_KEPT && info->gives == VECTOR_NONE;
}

// Sums of rows, of 64 lanes or, of IEEE_FP32, whose sticks have so many, of 32.
static inline bool vector_sums(uint32_t op)
{
    return op >= VECTOR_SUM && op <= VECTOR_WIDE_PRODUCT;
}

static inline bool vector_sums_wide(uint32_t op)
{
    return op >= VECTOR_WIDE_SUM && op <= VECTOR_WIDE_PRODUCT;
}

// What a sum of rows is, or what REDUCE sums: as VECTOR_SUM and those behind it, and the wide ones,
// follow each other.
typedef enum {
    SIMD_SUM, SIMD_SQUARES, SIMD_MAX, SIMD_MIN, SIMD_PRODUCT,
    SIMD_SUMS,                          // anything else
} simd_sum;

static inline simd_sum vector_sum_of(uint32_t op)
{
    return (simd_sum)((op - VECTOR_SUM) % SIMD_SUMS);
}

// What leaves a sum of `op` as it is.
static inline float vector_neutral(uint32_t op)
{
    static const float neutral[SIMD_SUMS] = {-0.0f, 0.0f, -INFINITY, INFINITY, 1.0f};
    return neutral[vector_sum_of(op)];
}

// Elements of which products and sums of two are surely values of SEN169_FP16 once they have its
// significand: 0, and sizes from 2^VECTOR_PLAIN_LEAST to 2^VECTOR_PLAIN_MOST.
enum { VECTOR_PLAIN_LEAST = -15, VECTOR_PLAIN_MOST = 16 };

typedef struct {
    uint32_t op;                        // vector_op, or VECTOR_APPLY + opfunc
    vector_rounding rounding;
    uint8_t *at;                        // elements of the block's first row
    const int64_t *row_at, *stick_at;   // bytes to each row, of rows_ahead more, and from there
                                        // to each stick
    int64_t upper;                      // of fp32 elements: bytes from lane 0 to lane 32
    int64_t ahead;                      // bytes to the next block's first row
    float *values;                      // kept: [stick][row][64]; line: [stick][64]; rows:
                                        // [row]; sums: [row][64], of which wide ones have
                                        // 32, others for each step
    const uint16_t *table;
    const float *constant;              // of the opfunc
    bool halves;                        // elements lie as IEEE_FP16, converted here
    bool streams;                       // STORE: whole lines of the host's caches, which the result
                                        // is much larger than; LOAD_X, WIDE_X: stick by stick
    bool plain;                         // kept values: all are plain, and of SEN169_FP16
    bool ranged;                        // rows: all values are of SEN169_FP16, none is 0, with
    int8_t least, most;                 // sizes from 2^least to 2^most
    bool same;                          // rows: they have one value
    bool holds;                         // opfunc of three inputs: the first is in `slot`
    uint32_t slot;
    bool wide;                          // the element that is spread is IEEE_FP32
    bool begins;                        // sums of rows: with `begin`, not with what values hold
    bool folds;                         // at the end, as FOLD does: values[row] is the result
    uint32_t rest;                      // sums: lanes of a row's last stick that enter; 0: all
    bool rest_of_each;                  // of each stick
    float begin;
} vector_step;

typedef struct {
    const vector_step *steps;
    uint32_t count;
    size_t rows, sticks;
    bool half;                          // of each unit the lanes from 32 on are no elements: they
                                        // are not stored, and sums have a rest of each stick of at
                                        // most 32
    size_t rows_ahead;                  // so far before its turn a row is fetched, row by row
} vector_program;

// True where a loop takes row by row: a row's sums stay in registers, and begin there, where a
// program stores nothing, so that no reader depends on the order of its units, and has one or two.
// Of several streams, or of one larger than the host's caches, sticks of a row are too much for the
// sets of these: they often lie a multiple of their size apart.
bool vector_goes_by_rows(const vector_program *w);

// All units of a program, without the values that sums begin with, unless it goes by rows, and
// without their end: the host fetches meanwhile what lies so many sticks further on.
typedef void vector_loop(const vector_program *w, size_t ahead);

// Sticks of one row may lie far apart, where the host does not see what comes next: so many units
// are on their way.
enum { VECTOR_UNITS_AHEAD = 32 };

// By a loop made for it; without one, NULL, op by op. Sums that do not begin with the program have
// the same value in all lanes.
typedef void vector_runner(const vector_program *w, vector_loop *loop);

// Whether so many values, whole sticks of no NaN, are plain.
typedef bool vector_checker(const float *values, size_t count);

// True for opfuncs that VECTOR_APPLY and VECTOR_APPLY_F32 have.
bool vector_applies(opfunc op, uint32_t inputs);

// True for opfuncs that VECTOR_FORMULA has. The step does this to the 64 lanes of x and y.
bool vector_has_formula(opfunc op, uint32_t inputs);
void vector_formula(const vector_step *s, float *x, const float *y);

static inline bool vector_is_formula(uint32_t op)
{
    return op >= VECTOR_FORMULA && op < VECTOR_HELD;
}

#endif
