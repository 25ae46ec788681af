// SPDX-License-Identifier: Apache-2.0
//
// VECTOR on integers: add, sub, mul, neg, abs, shiftleft and conversions between integer formats
// keep the low bits of the result. Other opfuncs round nothing on integers and go through
// element_store.
#ifndef CARD_EXEC_INTEGERS_H
#define CARD_EXEC_INTEGERS_H

#include "isa/isa.h"

// True when the instruction wraps: one of those opfuncs, all operands integers.
bool exec_integer_wraps(const isa_instruction *i);

uint64_t exec_integer_load(const uint8_t *element, spyre_format format);
void exec_integer_store(uint8_t *element, spyre_format format, uint64_t value);

// In two's complement of 64 bits, of which the low ones are the result of every format.
uint64_t exec_integer_apply(opfunc op, uint64_t a, uint64_t b);

#endif
