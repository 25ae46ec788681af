// SPDX-License-Identifier: Apache-2.0
//
// Fusible ops: which instructions vector programs have an op for, and of which kind it is.
#ifndef CARD_FUSIBLE_OPS_H
#define CARD_FUSIBLE_OPS_H

#include "card/row_fusion/row_tile.h"

// True for VECTORs, and LOADs that copy forwarding has left, that vector programs have an op for.
bool rows_streams(const isa_instruction *i);

// All operands are SEN169_FP16.
bool rows_all_dl16(const isa_instruction *i);

// A function of one input that a table has; the same opfunc may take more, which no table has.
bool rows_is_looked_up(const isa_instruction *i);

// The opfunc; IDENTITY of a LOAD, which is a copy, too.
opfunc rows_opfunc_of(const isa_instruction *i);

// Vector programs compute it in registers, without its formula in fp64.
bool rows_is_native(const isa_instruction *i);

#endif
