// SPDX-License-Identifier: Apache-2.0
//
// From the loop IR to steps of a bundle.
#ifndef FRONT_EMIT_H
#define FRONT_EMIT_H

#include "front/loop.h"

// The extent of variable v in the bundle: whole sticks where an operand carries its stick along it.
int64_t emit_padded_size(const loop_graph *loops, const loop_op *op, uint32_t v);

// The same for all variables, and into how many equal parts each may be divided: its extent, or,
// where some operand carries its stick along it, its count of whole sticks (1 when the padded extent
// is no multiple of the longest stick).
void emit_sizes(const loop_graph *loops, const loop_op *op, int64_t out_size[LOOP_MAX_VARS],
                int64_t out_units[LOOP_MAX_VARS]);

// Elements of variable v with the padding to whole sticks of some operand.
int64_t emit_padded_size(const loop_graph *loops, const loop_op *op, uint32_t v);

// A step under construction: step dims beside the variables they stand for.
typedef struct {
    const loop_graph *loops;
    const loop_op *op;
    loop_location place[LOOP_MAX_OPERANDS];
    bundle_step *step;
    uint8_t dim_of_var[LOOP_MAX_VARS];
    int8_t var_of_dim[BUNDLE_MAX_DIMS]; // -1 for a synthetic dim
    int64_t valid[BUNDLE_MAX_DIMS];     // the dim's extent before padding
    uint8_t lane_dim;                   // synthetic stick dim, or LOOP_NO_DIM
    uint8_t sum_dim;                    // matmul of K = 1: synthetic contracted stick dim
    uint8_t room_dim;                   // synthetic dim of size 1 that only takes room
    uint8_t row_dim;                    // gather: the dim whose index the table is looked up by
} emitter;

// The dim that carries operand k's stick (with scale -2 when the operand does not move along it).
uint8_t emit_stick_dim(const emitter *e, uint32_t k);

// Fills step->tensors[k] from operand k.
SPYRE_MUST_CHECK spyre_status emit_tensor(emitter *e, uint32_t k);

#endif
