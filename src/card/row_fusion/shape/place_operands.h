// SPDX-License-Identifier: Apache-2.0
//
// Where the operands of a tile, cut into parts, have their rows and sticks. Sums are apart: fp32 in
// LX that a FILL begins, as many a row as a stick has lanes. Their places may repeat from iteration
// to iteration of a loop; a row fusion has places of its own for them.
#ifndef CARD_PLACE_OPERANDS_H
#define CARD_PLACE_OPERANDS_H

#include "card/row_fusion/shape/cut_axes.h"

enum { ROWS_SUM_ROW = ROWS_LANES * 4 };     // bytes, of the row fusion's own sums

// The FILL of the same kernel before the tile that covers what operand o touches in LX; or NULL.
const rows_tile *rows_fill_of(const rows_tiles *earlier, const rows_tile *t, uint32_t o);

// The range of operand o over all iterations, of loops that stay outside, too.
void rows_set_range(const rows_tile *t, uint32_t o, rows_access *a);

// Fills all operands of the tile; false where one has lanes, rows or sticks that none can have.
bool rows_place_operands(const rows_tiles *earlier, rows_tile *t, const rows_part *parts);

#endif
