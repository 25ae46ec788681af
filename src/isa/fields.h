// SPDX-License-Identifier: Apache-2.0
//
// Which fields an instruction uses, by opcode: what the verifier, both binary directions and both
// text directions agree on. Fields that are not used are zero. Internal to src/isa.
#ifndef ISA_FIELDS_H
#define ISA_FIELDS_H

#include "isa/isa.h"

enum {
    ISA_USES_TOKEN = 1, // token
    ISA_USES_SLOT = 2,  // token, as the parameter slot of a peer
    ISA_USES_COUNT = 4, // count
    ISA_USES_OP = 8,    // op; elsewhere it is ADD, the zero of the enumeration
    ISA_USES_ROWS = 16, // row_stride, row_count
};
uint32_t isa_uses(isa_opcode opcode);

// Constants that the instruction carries: 1 for FILL, the opfunc's parameters for VECTOR.
uint32_t isa_constant_count(const isa_instruction *instruction);

// Operands the instruction must have, least and most.
void isa_operand_limits(const isa_instruction *instruction, uint32_t *out_least,
                        uint32_t *out_most);

// Leading loop strides of an operand up to the last one that is not zero; the same for strides.
uint32_t isa_loop_stride_count(const isa_operand *operand);

// True when the operand is written, not read.
bool isa_writes(isa_opcode opcode, uint32_t operand);

#endif
