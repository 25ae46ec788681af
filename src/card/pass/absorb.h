// SPDX-License-Identifier: Apache-2.0
//
// Iterations, and cores, as dims of one instruction: what absorb_loops and join_cores share.
#ifndef CARD_ABSORB_H
#define CARD_ABSORB_H

#include "card/plan/pass.h"

// Loops directly inside of each other, or none, and the tiles that the innermost holds.
typedef struct {
    const plan_step *loops, *tiles;
    uint32_t depth, count, steps;
} loop_block;

// The block that begins at a step; false when there is something else in one of its loops.
bool absorb_find_block(const plan_step *steps, loop_block *out);

// Makes dims of all loops of the block; false where there is no room.
bool absorb_block(isa_instruction *i, const loop_block *b);

// True when no operand shares bytes with the result, other than element for element.
bool absorb_stays_apart(const isa_instruction *i);

#endif
