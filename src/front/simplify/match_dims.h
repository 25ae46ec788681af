// SPDX-License-Identifier: Apache-2.0
//
// Operands whose dims the loops of a reader cannot follow.
#ifndef FRONT_MATCH_DIMS_H
#define FRONT_MATCH_DIMS_H

#include "front/ir/loop.h"

// Gives what the op reads across its dims the dims of the op's loops: a local buffer has them from
// now on, an input is copied into a buffer that has them, which all ops that read the input across
// its dims then read. *out_matched is false when there is no such operand, or none that it helps.
SPYRE_MUST_CHECK spyre_status match_dims(loop_graph *loops, uint32_t op, bool *out_matched);

#endif
