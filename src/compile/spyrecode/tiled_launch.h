// SPDX-License-Identifier: Apache-2.0
//
// Which launch arguments may be larger than a program was compiled for, so that several launches,
// each a tile further on, do the whole. Internal to src/compile.
#ifndef COMPILE_TILED_LAUNCH_H
#define COMPILE_TILED_LAUNCH_H

#include "bundle/model.h"

// The dim along which an argument may be longer: from one index to the next, and up to its end.
// 0 where the argument stays.
typedef struct {
    int64_t stride, bytes;
} launch_tile;

// Finds the ways to run the bundle in rounds, at most SPYRECODE_MOST_WAYS. In way w argument a may
// be longer along (*out_tiles)[w * b->args.count + a]. In a way every argument that is written is
// larger, and nothing that a round computes depends on another round. No ways are found for bundles
// with loops, gathers or arguments of unknown size.
SPYRE_MUST_CHECK spyre_status tiled_launch_find(arena *memory, const bundle *b,
                                                const launch_tile **out_tiles, uint32_t *out_ways);

#endif
