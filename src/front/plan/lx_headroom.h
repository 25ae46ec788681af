// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_HEADROOM_H
#define FRONT_LX_HEADROOM_H

#include "front/ir/loop.h"

// Whether LX has room for a buffer that is in memory, sliced as its writer divides it, next to what
// lies there while it lives: "there is room", "for that %a (b3) and %c (b7) have to leave" (those
// at one place with the fewest bytes; at most three are named), or that a slice is larger than LX.
// `loops` is the final loop IR; null when memory is short.
const char *lx_headroom_describe(const loop_graph *loops, uint32_t buffer, arena *memory);

#endif
