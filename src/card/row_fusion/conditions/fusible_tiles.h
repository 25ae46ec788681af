// SPDX-License-Identifier: Apache-2.0
//
// Whether the tiles of a window's kernels make a row fusion: each has the shape in one of its ways
// (fit_shape.c) and is in order behind those before it (dependences.c), what the row fusion does
// not leave in LX has no later reader (later_readers.c), and they gain by it (profitability.c).
#ifndef CARD_FUSIBLE_TILES_H
#define CARD_FUSIBLE_TILES_H

#include "card/row_fusion/shape/row_shape.h"
#include "card/row_fusion/tiles/kernel_window.h"

// Why tiles are not fusible: one of this kernel has no way, UINT32_MAX when that is not why. The
// tiles of so many kernels from the first on may be fusible for all that: of those in front of it,
// or of more, where only its result is in the way, which nothing reads behind so many.
typedef struct {
    uint32_t kernel, fewer;
} rows_failure;

// Places all tiles; there are two over all elements, or a reduction of one core alone, so that
// threads can share its rows.
bool rows_are_fusible(const rows_window *w, const rows_shape *shape, rows_tiles *tiles,
                      rows_failure *out_failed);

// Whether the first runs of sticks are all that leaves the row fusion of placed tiles.
bool rows_are_half(const rows_window *w, const rows_tiles *tiles);

#endif
