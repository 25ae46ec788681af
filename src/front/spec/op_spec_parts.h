// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_OP_SPEC_PARTS_H
#define FRONT_OP_SPEC_PARTS_H

#include "front/ir/loop.h"

// A copy of the buffer, each of its dims that every access walks by the same nest of loops taken
// apart into one dim a loop. Storage, bytes and place are those of the buffer.
loop_buffer op_spec_in_parts(const loop_graph *loops, uint32_t buffer);

#endif
