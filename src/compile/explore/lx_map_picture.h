// SPDX-License-Identifier: Apache-2.0
//
// The LX map over time as SVG 1.1: ops from left to right, bytes of a core's LX from bottom to top,
// a rectangle a buffer. An op's column has two halves, reading and writing, so a result that takes
// the place of an operand follows it without a gap. Internal to src/compile.
#ifndef COMPILE_LX_MAP_PICTURE_H
#define COMPILE_LX_MAP_PICTURE_H

#include "compile/explore/lx_stage.h"

// Appends one <svg> with a panel a map, titles above them. Rectangles carry their numbers as
// data-buffer, data-first, data-last; columns data-op.
void lx_picture_print(const lx_map *maps, const char *const *titles, uint32_t count, text *out);

#endif
