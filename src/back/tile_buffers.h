// SPDX-License-Identifier: Apache-2.0
//
// Two buffers of a tile in LX for each operand of a step that lives in memory; operands in LX are
// used in place, numbers are made in a buffer of one tile. Internal.
#ifndef BACK_TILE_BUFFERS_H
#define BACK_TILE_BUFFERS_H

#include "back/allocate.h"
#include "back/tile_extents.h"

typedef struct {
    const nest *n;
    int64_t largest_bytes; // of one tile
    bool staged[BUNDLE_MAX_TENSORS];
    bool counted[BUNDLE_MAX_TENSORS]; // numbers, whose one buffer the SFP fills
    uint8_t source[BUNDLE_MAX_TENSORS]; // the operand whose place it is found in: mostly its own
    lx_region region[BUNDLE_MAX_TENSORS];
} tile_buffers;

// Marks the operands in memory; tiles of up to ISA_TILE_BYTES.
tile_buffers buffers_of(const nest *n);

// Lets inputs that are read at one place in memory share one tile, as x * x does.
void buffers_join_equal_inputs(tile_buffers *s);

// Bytes of two buffers for every staged operand; a tile_bytes whose context is the buffers.
int64_t buffers_bytes(const void *s, const int64_t *tile);

// The largest tile, grown along `dims` (the last one first), and its place in LX.
SPYRE_MUST_CHECK spyre_status buffers_fit(tile_buffers *s, const back_options *options,
                                          const uint8_t *dims, uint32_t dim_count,
                                          int64_t *out_tile);

// The place of a tile that is chosen.
SPYRE_MUST_CHECK spyre_status buffers_take(tile_buffers *s, lx_share *share, const int64_t *tile);

// The tile of a staged or counted operand, the home of another.
place buffers_place(const tile_buffers *s, const box *b, const place_axes *axes, uint32_t operand);

// True when some of the step's first `inputs` inputs is staged.
bool buffers_stage_inputs(const tile_buffers *s, uint32_t inputs);

#endif
