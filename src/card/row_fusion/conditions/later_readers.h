// SPDX-License-Identifier: Apache-2.0
//
// Later readers: what may be read behind a row fusion that ends with kernel `last` of the window's
// phases.
#ifndef CARD_LATER_READERS_H
#define CARD_LATER_READERS_H

#include "card/row_fusion/tiles/kernel_window.h"

// The phase behind is a part of the same kernel (compose_copies.c): liveness, which is that of
// whole kernels, does not tell what it reads.
bool rows_part_follows(const rows_window *w, uint32_t last);

// Something reads bytes of LX before they are written.
bool rows_is_live(const rows_window *w, uint32_t last, byte_range range);

// Something reads bytes of LX as kernel `writer`, counted from the window's first, left them, or as
// the tile's result left them.
bool rows_bytes_are_read(const rows_window *w, uint32_t last, uint32_t writer, byte_range range);
bool rows_is_read(const rows_window *w, uint32_t last, const rows_tile *t);

// Nothing reads sums and constants of FILLs, which never reach LX.
bool rows_sums_die(const rows_window *w, uint32_t last, const rows_tiles *tiles);

// Nothing of the first `kernels` of the tiles' is wanted by what stands behind them: no result in
// LX, nor do the others take or write elements of an argument that one of them has.
bool rows_part_at(const rows_window *w, const rows_tiles *tiles, uint32_t kernels);

#endif
