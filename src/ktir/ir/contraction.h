// SPDX-License-Identifier: Apache-2.0
//
// linalg.matmul and its kin: which dims of the factors are rows, columns, batches and what is
// summed.
#ifndef KTIR_CONTRACTION_H
#define KTIR_CONTRACTION_H

#include "ktir/ir/ir.h"

typedef enum { KTIR_AXIS_B, KTIR_AXIS_M, KTIR_AXIS_N, KTIR_AXIS_K, KTIR_AXES } ktir_axis;

typedef struct {
    uint32_t rank[3];                   // of the factors and of the result
    ktir_axis axis[3][3];               // of their dims
} ktir_contraction;

// Of an opcode of form MATMUL.
ktir_contraction ktir_contraction_of(ktir_opcode opcode);

#endif
