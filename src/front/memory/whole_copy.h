// SPDX-License-Identifier: Apache-2.0
//
// Ops that copy all of a buffer, for the passes that put such copies between ops.
#ifndef FRONT_WHOLE_COPY_H
#define FRONT_WHOLE_COPY_H

#include "front/ir/loop.h"

// Describes a copy from buffer `source` to `target`, which have one form, loops outermost dim
// first, divided so that every core gets what it has of the buffer under an access of op `near` to
// it. Where cores have the same, an IDENTITY is refused and a SHUFFLE gets a loop over them, along
// which nothing moves. False when there is no such copy.
bool whole_copy_describe(const loop_graph *loops, opfunc op, const loop_op *near,
                         const loop_access *access, uint32_t source, uint32_t target, loop_op *out);

// A new local buffer of the form of `original`.
SPYRE_MUST_CHECK spyre_status whole_copy_target(loop_graph *loops, uint32_t original,
                                                uint32_t *out);

#endif
