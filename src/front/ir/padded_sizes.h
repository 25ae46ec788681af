// SPDX-License-Identifier: Apache-2.0
//
// An op's iteration space as a step of a bundle has it.
#ifndef FRONT_PADDED_SIZES_H
#define FRONT_PADDED_SIZES_H

#include "front/ir/loop.h"

// The extent of every variable in the bundle, whole sticks where an operand carries its stick along
// it, and into how many equal parts it may be divided: its extent, or, where some operand carries
// its stick along it, its count of whole sticks (1 when the padded extent is no multiple of the
// longest stick).
void padded_sizes(const loop_graph *loops, const loop_op *op, int64_t out_size[LOOP_MAX_VARS],
                  int64_t out_units[LOOP_MAX_VARS]);

#endif
