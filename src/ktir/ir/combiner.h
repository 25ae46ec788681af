// SPDX-License-Identifier: Apache-2.0
//
// What a reduction combines with: by name, or by a region of one operation, or of a comparison and
// the selection of what it prefers.
#ifndef KTIR_COMBINER_H
#define KTIR_COMBINER_H

#include "ktir/ir/ir.h"

// The operation that combines two elements; KTIR_OP_COUNT when a region does more.
ktir_opcode combiner_opcode(const ktir_module *m, const ktir_op *op);

// SUM, MAX or MIN of floating-point elements, as the card reduces; OPFUNC_NONE for anything else.
opfunc combiner_reduction(const ktir_module *m, const ktir_op *op);

#endif
