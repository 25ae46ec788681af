// SPDX-License-Identifier: Apache-2.0
//
// The span limit: how far a core may reach over one tensor in memory.
#ifndef FRONT_SPAN_REDUCTION_H
#define FRONT_SPAN_REDUCTION_H

#include "front/ir/division.h"

// Bytes of operand k that one core reaches over under division d: what it covers of the outermost
// device dim along which it moves, times the bytes of a step there.
int64_t span_of_operand(const loop_graph *loops, const loop_op *op, const division *d, uint32_t k);

// True when no operand's span is above settings.max_span_bytes.
bool span_fits(const loop_graph *loops, const loop_op *op, const division *d);

// The least division that keeps the op within the limit as far as a division can.
division span_division(const loop_graph *loops, const loop_op *op);

// How many reduced loops a division splits; cores can combine partial results of one.
uint32_t span_reduced_splits(const loop_op *op, const division *d);

// When a core reaches too far under d, logs a critical message that names op, operand, division,
// span and limit, and the least division that would do.
void span_report(const loop_graph *loops, uint32_t index, const division *d);

#endif
