// SPDX-License-Identifier: Apache-2.0
//
// A loop that was written step by step, and what the pass reroll_steps knows of it. Step 0 runs
// first. Op p of the body stands for op p of every step. Internal.
#ifndef FRONT_REROLL_H
#define FRONT_REROLL_H

#include "front/ir/def_use.h"
#include "front/ir/loop.h"

typedef enum {
    REROLL_SHARED, // one buffer in all steps, maybe at places that move from step to step
    REROLL_OWN,    // what op `from` of the same step made
    REROLL_CARRY   // what op `from` of the step before made; in step 0 the first value
} reroll_source;

typedef struct {
    reroll_source source;
    uint32_t from;
    int64_t step; // REROLL_SHARED: host elements from one step to the next
} reroll_operand;

typedef reroll_operand reroll_operands[LOOP_MAX_OPERANDS];

// What one op of the body hands to the next step.
typedef struct {
    bool carried;       // the next step reads it
    bool read_outside;  // behind the loop, that of the last step
    bool in_place;      // the value before it has no reader once it is made
    uint32_t first;     // carried: the buffer of the first value
    loop_access access; // and how step 0 reads it
    loop_access walk;   // how the others read the value
} reroll_result;

typedef struct {
    const loop_graph *loops;
    def_use f;
    int64_t scope;
    uint32_t steps, length;    // of the body
    uint32_t *step_of;         // by op: its step, or SPYRE_NO_ID
    uint32_t *position_of;     // by op of a step
    uint32_t *body;            // by step, then position: op
    reroll_operands *operands; // by position
    reroll_result *results;    // by position
    const char *why_not;       // what speaks against one loop, or null
    uint32_t why_op;           // and of which op
} reroll;

static inline uint32_t reroll_op(const reroll *r, uint32_t step, uint32_t position)
{
    return r->body[step * r->length + position];
}

// --- find_repeated_steps.c

// Finds the ops of each step and what flows between them; r->why_not when they are no loop. loops,
// f, scope, steps and step_of are given.
SPYRE_MUST_CHECK spyre_status reroll_match(reroll *r, arena *memory);

// --- build_counted_loop.c

// Replaces the steps by one counted loop in `loops`, a copy of r->loops; r->why_not as above, and
// `loops` is of no use then.
SPYRE_MUST_CHECK spyre_status reroll_build(reroll *r, loop_graph *loops);

bool reroll_same_strides(const loop_graph *loops, const loop_access *a, const loop_access *b);

// True when both have the same dims, stick and format: an element-wise copy leads from one to the
// other.
bool reroll_same_places(const loop_buffer *a, const loop_buffer *b);

// The buffer that stands for what op `position` of the body makes: that of the last step.
static inline uint32_t reroll_buffer(const reroll *r, uint32_t position)
{
    const loop_op *op = &r->loops->ops.items[reroll_op(r, r->steps - 1, position)];
    return op->operand[op->operand_count - 1].buffer;
}

static inline void reroll_refuse(reroll *r, uint32_t op, const char *why)
{
    if (r->why_not) return;
    r->why_not = why;
    r->why_op = op;
}

#endif
