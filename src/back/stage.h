// SPDX-License-Identifier: Apache-2.0
//
// Tiles in LX for the operands of a step that live in memory; operands in LX are used in place.
// Internal.
#ifndef BACK_STAGE_H
#define BACK_STAGE_H

#include "back/allocate.h"
#include "back/tile.h"

// No tile is larger, so that load, compute and store have something to overlap.
enum { STAGE_LARGEST_TILE_BYTES = 64 << 10 };

typedef struct {
    const nest *n;
    int64_t largest_bytes; // of one tile
    bool staged[BUNDLE_MAX_TENSORS];
    uint8_t source[BUNDLE_MAX_TENSORS]; // the operand whose place it is found in: mostly its own
    lx_region region[BUNDLE_MAX_TENSORS];
} stage;

// Marks the operands in memory; tiles of up to STAGE_LARGEST_TILE_BYTES.
stage stage_of(const nest *n);

// Lets inputs that are read at one place in memory share one tile, as x * x does.
void stage_join_equal_inputs(stage *s);

// Bytes of two buffers for every staged operand; a tile_footprint whose context is the stage.
int64_t stage_footprint(const void *s, const int64_t *tile);

// The largest tile, grown along `dims` (the last one first), and its place in LX.
SPYRE_MUST_CHECK spyre_status stage_fit(stage *s, const back_options *options, const uint8_t *dims,
                                        uint32_t dim_count, int64_t *out_tile);

// The place of a tile that is chosen.
SPYRE_MUST_CHECK spyre_status stage_take(stage *s, lx_share *share, const int64_t *tile);

// The tile of a staged operand, the home of another.
place stage_place(const stage *s, const box *b, const place_axes *axes, uint32_t operand);

// True when some input (or index) is staged.
bool stage_has_inputs(const stage *s);

#endif
