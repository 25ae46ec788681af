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

// What is known of the elements that each step loads, or of its result.
typedef struct {
    bool of[CODE_MOST_STEPS];
} step_marks;

// Steps whose VECTOR_ROUND does what VECTOR_SIGNIFICAND would: *out_always; and *out_rounded where
// all elements of the LOADs *out_plain, which stand in front of all stores, are plain. False where
// looking at these costs more.
bool choose_plain(const vector_program *w, step_marks *out_plain, step_marks *out_rounded,
                  step_marks *out_always);

#endif
