// SPDX-License-Identifier: Apache-2.0
//
// How numbers of a program follow from sizes of symbols. Internal to src/compile/sizes.
#ifndef COMPILE_PROGRAM_NUMBERS_H
#define COMPILE_PROGRAM_NUMBERS_H

#include "spyrecode/model.h"

enum {
    NUMBER_VALUES = 1 + SPYRECODE_MOST_POWER,   // of each size
    NUMBER_POINTS = SPYRECODE_MOST_TERMS,
};

typedef struct {
    uint32_t symbol_count;
    int64_t granules[SPYRECODE_MOST_SYMBOLS];   // largest
    uint8_t degree[SPYRECODE_MOST_SYMBOLS];     // the highest power to look for
    uint32_t count, program_count;      // numbers; the first ones are the program's
    const int64_t *points[NUMBER_POINTS];   // numbers where every size is as many granules below
                                        // its largest as its digit of the index says; or null
    // Found:
    uint32_t *rule;                     // by number: 1 + its expression, or 0: it is fixed
    VEC(spyrecode_expression) expressions;
    uint32_t value_count;               // expressions that the program uses: the first ones
} program_numbers;

// Digit s of the index of a point, or of a term, whose digits are powers.
uint32_t program_numbers_digit(uint32_t index, uint32_t s);

// Finds the rules from the points; *out_fits becomes false where a number has none.
SPYRE_MUST_CHECK spyre_status program_numbers_find(arena *memory, program_numbers *n,
                                                   bool *out_fits);

#endif
