// SPDX-License-Identifier: Apache-2.0
//
// Buffers whose contents are read somewhere else, for passes that drop the ops which made them.
#ifndef FRONT_RENAME_H
#define FRONT_RENAME_H

#include "front/ir/flow.h"

typedef struct {
    const loop_graph *loops;
    flow flow;
    uint32_t *places; // by buffer: where its contents are read; itself at first
} renaming;

SPYRE_MUST_CHECK spyre_status rename_begin(const loop_graph *loops, renaming *out);

// Lets the inputs of an op read where their contents are.
void rename_operands(const renaming *r, loop_op *op);

// True when the op that writes the buffer may go: it is the only one, and the caller gets nothing.
bool rename_may_drop(const renaming *r, uint32_t buffer);

#endif
