// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_NAMED_DIMS_H
#define FRONT_NAMED_DIMS_H

#include "front/ir/loop.h"

// Before layouts are chosen: sets loop_op.cut_sticks by the tiles that a user asks for. Errors are
// those of named_dims.
SPYRE_MUST_CHECK spyre_status named_dims_find_cut_sticks(loop_graph *loops);

#endif
