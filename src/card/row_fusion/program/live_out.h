// SPDX-License-Identifier: Apache-2.0
//
// Which values and tiles' results are live behind a row fusion.
#ifndef CARD_LIVE_OUT_H
#define CARD_LIVE_OUT_H

#include "card/row_fusion/program/program_builder.h"
#include "card/row_fusion/tiles/kernel_window.h"

// What may be read in LX or memory: of each value, of each tile's result.
typedef struct {
    bool value[ROWS_MOST_STEPS], tile[ROWS_MOST_STEPS];
} rows_live;

// Behind one that ends with kernel `last` of the window's phases.
void rows_find_live_out(const rows_window *w, uint32_t last, const rows_builder *b,
                        rows_live *live);

#endif
