// SPDX-License-Identifier: Apache-2.0
//
// Whether the tiles of a window's kernels make a row fusion: each has the shape in one of its ways
// (rows_shape.c), is in order behind those before it (rows_order.c), and what the row fusion does
// not leave in LX nothing behind it reads.
#ifndef CARD_ROWS_AGREE_H
#define CARD_ROWS_AGREE_H

#include "card/row_fusion/rows_window.h"

// Why tiles do not agree: one of this kernel has no way, UINT32_MAX when that is not why. So many
// kernels from the first on may agree for all that: those in front of it, or more, where only its
// result is in the way, which nothing reads behind so many.
typedef struct {
    uint32_t kernel, fewer;
} rows_failure;

// Places all tiles; there are two over all elements, or a reduction of one core alone, so that
// threads can share its rows.
bool rows_agree(const rows_window *w, const rows_shape *shape, rows_tiles *tiles,
                rows_failure *out_failed);

// --- Behind a row fusion that ends with kernel `last` of the window's phases (rows_live.c)

// Something reads bytes of LX before they are written.
bool rows_is_live(const rows_window *w, uint32_t last, byte_range range);

// Something reads bytes of LX as the tile's result left them.
bool rows_is_read(const rows_window *w, uint32_t last, const rows_tile *t);

// Nothing reads sums and constants of FILLs, which never reach LX.
bool rows_sums_die(const rows_window *w, uint32_t last, const rows_tiles *tiles);

// Nothing of the first `kernels` of the tiles' is wanted by what stands behind them: no result in
// LX, nor do the others take or write elements of an argument that one of them has.
bool rows_part_at(const rows_window *w, const rows_tiles *tiles, uint32_t kernels);

// What may be read in LX or memory: of each value, of each tile's result.
typedef struct {
    bool value[ROWS_MOST_STEPS], tile[ROWS_MOST_STEPS];
} rows_live;
void rows_find_live(const rows_window *w, uint32_t last, const rows_builder *b, rows_live *live);

#endif
