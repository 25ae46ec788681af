// SPDX-License-Identifier: Apache-2.0
//
// Tensors of the interpreter: elements as numbers of 64 bits, already rounded to their type. A
// 16-bit float is rounded as the card does, to SEN169_FP16. Tensors are values: one that has
// several owners is never written.
#ifndef KTIR_TENSOR_H
#define KTIR_TENSOR_H

#include "ktir/ir/ir.h"

typedef union {
    double real;
    int64_t integer;
} ktir_number_value;

typedef struct {
    uint32_t owners;
    ktir_element element;
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK];
    int64_t count;
    ktir_number_value at[];
} ktir_tensor;

enum { KTIR_MOST_ELEMENTS = 1 << 28 };  // of one tensor

// Zeros, with one owner; null when there is no room.
ktir_tensor *ktir_tensor_new(ktir_element element, uint32_t rank, const int64_t *size);
ktir_tensor *ktir_tensor_like(const ktir_tensor *t);
ktir_tensor *ktir_tensor_keep(ktir_tensor *t);
void ktir_tensor_drop(ktir_tensor *t);      // null is allowed

// One rounding to a floating-point type, wrapping to an integer type.
double ktir_round(ktir_element element, double value);
// The least number above 0 of a floating-point type that is no subnormal one.
double ktir_least_normal(ktir_element element);
int64_t ktir_wrap(ktir_element element, int64_t value);

// One element from and to memory in the format of the card.
ktir_number_value ktir_element_load(ktir_element element, const uint8_t *bytes);
void ktir_element_store(ktir_element element, uint8_t *bytes, ktir_number_value value);

// x op y of integers of that type; false for a division by zero or a shift by the width or more.
bool ktir_integer_apply(ktir_integer op, ktir_element element, int64_t x, int64_t y,
                        int64_t *out_value);

// Whether a predicate holds.
bool ktir_compare(const ktir_predicate *predicate, ktir_element element, ktir_number_value x,
                  ktir_number_value y);

#endif
