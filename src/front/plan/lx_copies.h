// SPDX-License-Identifier: Apache-2.0
//
// Ops that copy a whole buffer, which the planner puts between the ops of a graph:
//     boundary copies  an input's into LX, before its first reader; a result's out of LX, behind
//                      its writer (boundary_copies.c)
//     LX shuffles      from LX to LX over the ring, for readers that divide a buffer otherwise than
//                      its writer (lx_shuffles.c)
// All copies of one buffer are one candidate: they are kept or dropped together.
#ifndef FRONT_LX_COPIES_H
#define FRONT_LX_COPIES_H

#include "front/ir/loop.h"

typedef struct {
    uint32_t original; // buffer
    bool leaves;       // the original leaves the graph: its writer makes the other buffer
    bool kept;
    double gain_us;      // that all copies of the original save, as if all else were in memory
    loop_op op;          // its operands are set by insertion
    uint32_t buffer, at; // set by insertion: the other buffer, and the op's position
} lx_copy;

typedef struct {
    VEC(lx_copy) items; // those of one original side by side
    uint32_t *copy_of;  // by op * LOOP_MAX_OPERANDS + operand: the copy whose other buffer the
                        // operand takes instead of the original, or SPYRE_NO_ID
} lx_copies;

SPYRE_MUST_CHECK spyre_status lx_copies_create(const loop_graph *loops, lx_copies *out);

// Describes a copy of the buffer of operand k of op `near`: loops outermost dim
// first, divided so that every core gets what it has of the buffer under that access. Where cores
// have the same, an IDENTITY is refused and a SHUFFLE gets a loop over them, along which nothing
// moves. False when there is no such copy.
bool lx_copy_describe(const loop_graph *loops, opfunc op, const loop_op *near,
                      uint32_t k, loop_op *out);

// A local buffer like another one, for the other side of a copy.
SPYRE_MUST_CHECK spyre_status lx_copies_add_buffer(loop_graph *loops, uint32_t original,
                                                   uint32_t *out);

// Puts the kept copies between the ops and lets operands use their buffers.
SPYRE_MUST_CHECK spyre_status lx_copies_insert(loop_graph *loops, lx_copies *copies);

// Drops candidates of which some buffer has no place in LX in the graph that has them; true when
// there were none.
bool lx_copies_keep_placed(const loop_graph *planned, lx_copies *copies);

// Drops the half of the kept candidates that gains the least.
SPYRE_MUST_CHECK spyre_status lx_copies_drop_half(arena *memory, lx_copies *copies);

// Lets readers of a copy that stands in counted loops and has no place in LX read what it copies,
// tile by tile as it does, and leaves it out.
SPYRE_MUST_CHECK spyre_status lx_copies_forward(loop_graph *loops);

uint32_t lx_copies_kept(const lx_copies *copies);

#endif
