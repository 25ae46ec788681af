// SPDX-License-Identifier: Apache-2.0
//
// From the loop IR to steps of a bundle.
#ifndef FRONT_EMIT_H
#define FRONT_EMIT_H

#include "front/ir/division.h"

// What steps share: equal divisions, and equal distances of the cores' starts. Models have few.
typedef struct {
    map_bytes divisions; // to the first step with it
    map_bytes offsets;   // to a number in offset_lists
    VEC(const int64_t *) offset_lists;
} emit_shared;

// A step under construction: step dims beside the variables they stand for.
typedef struct {
    const loop_graph *loops;
    const loop_op *op;
    emit_shared *shared;
    division_sizes sizes; // of the op
    loop_location place[LOOP_MAX_OPERANDS];
    bundle_step *step;
    uint8_t dim_of_var[LOOP_MAX_VARS];
    int8_t var_of_dim[BUNDLE_MAX_DIMS]; // -1 for a synthetic dim
    int64_t valid[BUNDLE_MAX_DIMS];     // the dim's extent before padding
    uint8_t tap_of[LOOP_MAX_VARS];      // the variable of a window's taps, or LOOP_NO_DIM
    uint8_t last_var;                   // of the contracted or reduced stick, else of the result's
    uint8_t lane_dim;                   // synthetic stick dim, or LOOP_NO_DIM
    uint8_t sum_dim;                    // matmul of K = 1: synthetic contracted stick dim
    uint8_t room_dim;                   // synthetic dim of size 1 that only takes room
    uint8_t row_of_cast;                // synthetic dim of size 1 of casts of one dim
    uint8_t row_dim;                    // the dim whose index chooses rows of the table
} emitter;

// Bytes from one row of a table to the next, or from one stick of rows to the next; 0 where there
// is none.
int64_t emit_row_step(const emitter *e, uint32_t k);

// Fills step->tensors[k] from operand k.
SPYRE_MUST_CHECK spyre_status emit_tensor(emitter *e, uint32_t k);

#endif
