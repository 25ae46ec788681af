// SPDX-License-Identifier: Apache-2.0
//
// What holds of the loop IR after a pass: a row of invariant.def each, checked by loop_verify().
#ifndef FRONT_INVARIANT_H
#define FRONT_INVARIANT_H

#include "front/ir/loop.h"

// The value of loop_graph.stage: how many rows of pass.def have had their turn.
enum {
    STAGE_build,
#define PASS_ROW(name, kind, summary) STAGE_##name,
#include "front/pass.def"
#undef PASS_ROW
};

// Handlers, by the kind of a row. They return null or SPYRE_INTERNAL with the values that break the
// rule; loop_verify() puts pass, number, rule, op and operand before it, and frees what they
// allocated.
typedef spyre_status invariant_of_graph(const loop_graph *loops);
typedef spyre_status invariant_of_buffer(const loop_graph *loops, const loop_buffer *buffer);
typedef spyre_status invariant_of_op(const loop_graph *loops, const loop_op *op);
typedef spyre_status invariant_of_access(const loop_graph *loops, const loop_op *op,
                                         const loop_access *access);
#define INVARIANT_ROW(number, kind, name, from, holds)                                             \
    SPYRE_MUST_CHECK invariant_of_##kind invariant_##name;
#include "front/check/invariant.def"
#undef INVARIANT_ROW

#endif
