// SPDX-License-Identifier: Apache-2.0
//
// How much of its fields an instruction uses: what the verifier, both binary directions and both
// text directions agree on. Internal to src/isa.
#ifndef ISA_FIELD_COUNTS_H
#define ISA_FIELD_COUNTS_H

#include "isa/isa.h"

// Constants that the instruction carries: 1 for FILL, the opfunc's parameters for VECTOR, zeros
// where operands stand for them.
uint32_t isa_constant_count(const isa_instruction *instruction);

// Operands the instruction must have, least and most.
void isa_operand_limits(const isa_instruction *instruction, uint32_t *out_least,
                        uint32_t *out_most);

// Leading loop strides of an operand up to the last one that is not zero; the same for strides.
uint32_t isa_loop_stride_count(const isa_operand *operand);

#endif
