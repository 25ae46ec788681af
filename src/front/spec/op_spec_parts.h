// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_OP_SPEC_PARTS_H
#define FRONT_OP_SPEC_PARTS_H

#include "front/ir/loop.h"

// A copy of the buffer, each of its dims that every access walks by the same nest of loops taken
// apart into one dim a loop. Storage, bytes and place are those of the buffer.
SPYRE_MUST_CHECK spyre_status op_spec_in_parts(arena *memory, const loop_graph *loops,
                                               uint32_t buffer, loop_buffer *out);

#endif
