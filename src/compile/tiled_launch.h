// SPDX-License-Identifier: Apache-2.0
//
// Which launch arguments may be larger than a program was compiled for, so that several launches,
// each a tile further on, do the whole. Internal to src/compile.
#ifndef COMPILE_TILED_LAUNCH_H
#define COMPILE_TILED_LAUNCH_H

#include "bundle/model.h"

// Finds the ways to run the bundle in rounds: bit w of out_ways[a] says that argument a is larger
// in way w. There are b->args.count entries. In a way every argument that is written is larger, and
// nothing that a round computes depends on another round. No ways are found for bundles with loops,
// gathers or arguments of unknown size.
SPYRE_MUST_CHECK spyre_status tiled_launch_find(arena *memory, const bundle *b, uint32_t *out_ways);

#endif
