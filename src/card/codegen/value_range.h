// SPDX-License-Identifier: Apache-2.0
//
// Which values of a vector program need no look at their range when they are rounded, because of
// the elements that it begins with: products and sums of two plain ones (vector_program.h) are
// values of SEN169_FP16 once they have their significand.
//
//     LOAD_X arg0; KEPT_Y; mul round; LOAD_Y arg1; add round
//
// Of plain elements the product needs no look, the sum of it and an element does: it may be smaller
// than any value of SEN169_FP16.
#ifndef CARD_CODEGEN_VALUE_RANGE_H
#define CARD_CODEGEN_VALUE_RANGE_H

#include "card/simd/vector_program.h"

enum { CODE_MOST_STEPS = 128 };

// Whether a value may be NaN: what is loaded in fp32 any, what is computed a quiet one at most.
typedef enum { VALUE_ANY_NAN, VALUE_QUIET_NAN, VALUE_NO_NAN } value_nan;

// What is known of the elements that each step loads, or of its result.
typedef struct {
    bool of[CODE_MOST_STEPS];
    uint8_t nan[CODE_MOST_STEPS];           // value_nan, of x before it is rounded
} step_marks;

typedef struct {
    step_marks plain;                       // LOADs that are looked at before, in front of all
                                            // stores: where all they load is plain,
    int32_t most;                           // and at most 2^most,
    step_marks rounded;                     // VECTOR_ROUND of these steps does what
    step_marks always;                      // VECTOR_SIGNIFICAND would; of these always
} plain_choice;

// False where looking at the elements costs more.
bool choose_plain(const vector_program *w, plain_choice *out);

#endif
