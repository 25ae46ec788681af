// SPDX-License-Identifier: Apache-2.0
//
// Why an op cannot be laid out.
#ifndef FRONT_STICK_REFUSAL_H
#define FRONT_STICK_REFUSAL_H

#include "front/ir/loop.h"

// SPYRE_UNSUPPORTED with `rule`, and for every operand of `op` and its result what speaks against
// each layout that the buffer might have, or along which loop its stick would run. Layouts of
// buffers are as before.
SPYRE_MUST_CHECK spyre_status stick_refusal(loop_graph *loops, const loop_op *op, const char *rule);

#endif
