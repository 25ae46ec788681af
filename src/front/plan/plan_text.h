// SPDX-License-Identifier: Apache-2.0
//
// A plan as text, for the same graph at other sizes: one program serves all of them only where they
// are planned alike. A line each
//     plan <ops> <buffers>                  before copies were put between the ops
//     twin <original>                       a copy's other buffer (lx_copies.h), in ascending order
//     op <opfunc> <loops> <operands> <slices>/<core stride> .. <buffer> ..
//     copy ..                               likewise, of an op that was put between the others
//     lx <buffer> <offset> <slices> ..      a place in LX, slices by dim
#ifndef FRONT_PLAN_TEXT_H
#define FRONT_PLAN_TEXT_H

#include "front/ir/loop.h"

// Puts the plan of a graph that is divided and has its places in LX into loops->plan, or null of
// one without ops, and where a copy's buffer is another copy's, too.
SPYRE_MUST_CHECK spyre_status plan_text_print(loop_graph *loops);

// Gives a graph that is not planned yet the plan of loops->handed_plan. False in *out_fits, and the
// graph is in any state, when that is of another graph; what only sizes say is not looked at.
SPYRE_MUST_CHECK spyre_status plan_text_read(loop_graph *loops, bool *out_fits);

#endif
