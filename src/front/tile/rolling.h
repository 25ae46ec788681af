// SPDX-License-Identifier: Apache-2.0
//
// A loop that was written step by step, and what the pass roll_steps knows of it. Step 0 runs
// first. Op p of the body stands for op p of every step. Internal.
#ifndef FRONT_ROLLING_H
#define FRONT_ROLLING_H

#include "front/ir/flow.h"
#include "front/ir/loop.h"

typedef enum {
    ROLL_SHARED, // one buffer in all steps, maybe at places that move from step to step
    ROLL_OWN,    // what op `from` of the same step made
    ROLL_CARRY   // what op `from` of the step before made; in step 0 the first value
} roll_source;

typedef struct {
    roll_source source;
    uint32_t from;
    int64_t step; // ROLL_SHARED: host elements from one step to the next
} roll_operand;

typedef roll_operand roll_operands[LOOP_MAX_OPERANDS];

// What one op of the body hands to the next step.
typedef struct {
    bool carried;      // the next step reads it
    bool read_outside; // behind the loop, that of the last step
    bool in_place;     // the value before it has no reader once it is made
    uint32_t first;    // carried: the buffer of the first value
    loop_access access; // and how step 0 reads it
    loop_access walk;   // how the others read the value
} roll_result;

typedef struct {
    const loop_graph *loops;
    flow f;
    int64_t scope;
    uint32_t steps, length; // of the body
    uint32_t *step_of;      // by op: its step, or SPYRE_NO_ID
    uint32_t *position_of;  // by op of a step
    uint32_t *body;         // by step, then position: op
    roll_operands *operands; // by position
    roll_result *results;   // by position
    const char *why_not;    // what speaks against one loop, or null
    uint32_t why_op;        // and of which op
} rolling;

static inline uint32_t roll_op(const rolling *r, uint32_t step, uint32_t position)
{
    return r->body[step * r->length + position];
}

// Finds the ops of each step and what flows between them; r->why_not when they are no loop. loops,
// f, scope, steps and step_of are given.
SPYRE_MUST_CHECK spyre_status roll_match(rolling *r, arena *memory);

// Replaces the steps by one counted loop in `loops`, a copy of r->loops; r->why_not as above, and
// `loops` is of no use then.
SPYRE_MUST_CHECK spyre_status roll_build(rolling *r, loop_graph *loops);

bool roll_same_strides(const loop_access *a, const loop_access *b);

// True when both have the same dims, stick and format: an element-wise copy leads from one to the
// other.
bool roll_same_places(const loop_buffer *a, const loop_buffer *b);

// The buffer that stands for what op `position` of the body makes: that of the last step.
static inline uint32_t roll_buffer(const rolling *r, uint32_t position)
{
    const loop_op *op = &r->loops->ops.items[roll_op(r, r->steps - 1, position)];
    return op->operand[op->operand_count - 1].buffer;
}

static inline void roll_refuse(rolling *r, uint32_t op, const char *why)
{
    if (r->why_not) return;
    r->why_not = why;
    r->why_op = op;
}

#endif
