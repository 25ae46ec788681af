// SPDX-License-Identifier: Apache-2.0
//
// The ways in which an op may carry sticks. What an opfunc demands of the sticks of its operands:
//
//   element-wise  operands that move along the result's stick carry it there, the others are
//                 broadcast from lane 0 (one element a stick)
//   reduction     takes its input as it is; reducing the stick leaves one element a stick
//   ranking       as reductions; among reduced loops only the innermost may be the stick, because
//                 positions count in the order of the loops; no stick along ranks
//   batchmatmul   A sticks on a contracted variable, B and the result on a column variable
//   gather,       table and what is copied stick on a row variable; the rows of the table are
//   scatter       walked by data; or the table sticks on its rows, and elements are moved
//   moments       nothing may restickify the two moments of a row, which share a stick
#ifndef FRONT_STICK_MODES_H
#define FRONT_STICK_MODES_H

#include "front/layout/restickify.h"

enum { STICK_SPARSE = LOOP_MAX_DIMS, STICK_CHOICES = LOOP_MAX_DIMS + 1, STICK_MOST_MODES = 32 };

// Along which variable the stick of every operand runs, the result last; LOOP_NO_DIM: one element a
// stick. The index of a gather is read as it is.
typedef struct {
    uint8_t stick[LOOP_MAX_OPERANDS];
    uint8_t dim; // of the result's buffer, or STICK_SPARSE
} stick_mode;

typedef struct {
    uint32_t count;
    stick_mode items[STICK_MOST_MODES];
} stick_mode_list;

// By buffer: bit d says that every writer can write it with its stick along dim d, bit STICK_SPARSE
// the same for one element a stick. What replaces an input has that one's alone, if it can. Sets
// and takes away layouts of local buffers on the way.
SPYRE_MUST_CHECK spyre_status stick_writable(loop_graph *loops, const uint16_t **out_sticks);

// All ways of an op, those whose result sticks on an inner host dim first. May be none.
void stick_modes_of(const loop_graph *loops, const loop_op *op, uint16_t writable,
                    stick_mode_list *out);

// The variable with the smallest stride in `access` among those that are reduced, or not;
// LOOP_NO_DIM when there is none.
uint8_t stick_innermost(const loop_op *op, const loop_access *access, bool reduced);

// Gives operand k of `op` the stick that the mode wants, through copies where needed.
SPYRE_MUST_CHECK spyre_status stick_restickify(restickifier *r, loop_op *op, uint32_t k,
                                               const stick_mode *mode);

// Sets the layout of a local buffer; `stick` is a dim or STICK_SPARSE.
void stick_set(loop_buffer *buffer, uint8_t stick);

#endif
