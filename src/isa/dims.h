// SPDX-License-Identifier: Apache-2.0
//
// Dims of an instruction in another shape: all operands take part. Whoever adds a dim has seen that
// there is room for it. And what instructions of different shapes have in common.
#ifndef ISA_DIMS_H
#define ISA_DIMS_H

#include "isa/isa.h"

// A dim in front of dim `at`, along which no operand moves yet.
void isa_insert_dim(isa_instruction *i, uint32_t at, uint32_t extent);

// Two dims of one, whose extent `inner` divides.
void isa_split_dim(isa_instruction *i, uint32_t dim, uint32_t inner);

// Leaves a dim out, of which one index stays.
void isa_remove_dim(isa_instruction *i, uint32_t dim);

// Leaves out all dims of one index but the last dim.
void isa_remove_single_dims(isa_instruction *i);

// A loop around the instruction becomes its outermost dim, unless it has one iteration. False
// where there is no room.
bool isa_absorb_loop(isa_instruction *i, uint32_t loop, uint32_t iterations);

// Both do the same with as many operands.
bool isa_same_work(const isa_instruction *a, const isa_instruction *b);

// Operands but for their dims and offsets.
bool isa_same_memory(const isa_operand *a, const isa_operand *b);

#endif
