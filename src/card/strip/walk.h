// SPDX-License-Identifier: Apache-2.0
//
// Walks: a short list of steps for every stick of a block of rows, done in vector registers. A
// stick is 64 elements of SEN169_FP16; its values are fp32 in two registers' worth, x and y.
// Whoever builds a walk sees to it that every value is rounded as the instruction it stands for
// would. walk_body.h holds the loops for each host.
#ifndef CARD_WALK_H
#define CARD_WALK_H

#include <stddef.h>

#include "tensor/opfunc.h"

typedef enum {
    WALK_LOAD,                          // x = elements
    WALK_LOAD_KEPT,                     // x = values
    WALK_WITH,                          // y = elements
    WALK_WITH_KEPT,                     // y = values
    WALK_WITH_LINE,                     // y = values, the same for all rows
    WALK_WITH_ROWS,                     // y = values[row] in all lanes
    WALK_WITH_SAME,                     // y = x
    WALK_WITH_ZERO,                     // y = 0
    WALK_DIFFERENCE,                    // x = x - y, and so on: fp32, NaN as the host makes it
    WALK_PRODUCT,
    WALK_TOTAL,
    WALK_EXP,                           // x = exp(x), rounded; on hosts that have it
    WALK_LOOK_UP,                       // x = table[x]
    WALK_STORE,                         // elements = x, rounded
    WALK_STORE_FOUND,                   // elements = table[x]
    WALK_KEEP,                          // values = x
    WALK_SUM,                           // values = values + x, and so on, lane by lane: of rows
    WALK_SQUARES,
    WALK_MOST,
    WALK_LEAST,
    WALK_APPLY,                         // + opfunc: x = opfunc(x, y); see walk_applies
} walk_verb;

// What a step does to x afterwards.
typedef enum {
    WALK_AS_IS,
    WALK_SIGNIFICAND,                   // to the bits of SEN169_FP16; of any exponent, NaN stays
    WALK_ROUND,                         // to SEN169_FP16
} walk_rounding;

typedef struct {
    uint32_t verb;                      // walk_verb, or WALK_APPLY + opfunc
    walk_rounding rounding;
    uint8_t *at;                        // elements of the block's first row
    int64_t row_stride, stick_stride;
    int64_t ahead;                      // bytes to what the next walk will load
    float *values;                      // kept: [stick][row][64]; line: [stick][64]; rows:
                                        // [row]; sums: [row][64]
    const uint16_t *table;
    const float *constant;              // of the opfunc
    bool begins;                        // sums of rows: with `begin`, not with what values hold
    bool folds;                         // at the end, as FOLD does; lane 0 has the result
    float begin;
} walk_step;

typedef struct {
    const walk_step *steps;
    uint32_t count;
    size_t rows, sticks;
} strip_walk;

// Sums that do not begin with the walk have the same value in all lanes.
typedef void walk_function(const strip_walk *w);

// True for opfuncs that WALK_APPLY has, of SEN169_FP16 inputs.
bool walk_applies(opfunc op, uint32_t inputs);

#endif
