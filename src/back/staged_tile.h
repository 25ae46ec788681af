// SPDX-License-Identifier: Apache-2.0
//
// What stands around the compute of a tile: operands that live in memory pass buffers, which the
// queues hand to each other. `inputs` is how many of the step's first inputs the tile reads.
// Internal.
#ifndef BACK_STAGED_TILE_H
#define BACK_STAGED_TILE_H

#include "back/emit.h"
#include "back/tile_buffers.h"

// Loads the inputs that are staged, each once, and hands them to the SFP.
SPYRE_MUST_CHECK spyre_status staged_load(emitter *e, const tile_buffers *tiles, const box *b,
                                          const place_axes *axes, uint32_t inputs);

// Hands their buffers back.
SPYRE_MUST_CHECK spyre_status staged_release(emitter *e, const tile_buffers *tiles,
                                             uint32_t inputs);

// Hands the result to the store queue where it is staged, stores it and hands its buffer back.
SPYRE_MUST_CHECK spyre_status staged_store(emitter *e, const tile_buffers *tiles, const box *b,
                                           const place_axes *axes);

#endif
