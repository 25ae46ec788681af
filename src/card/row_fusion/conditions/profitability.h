// SPDX-License-Identifier: Apache-2.0
//
// Whether a row fusion would be faster than its tiles.
#ifndef CARD_PROFITABILITY_H
#define CARD_PROFITABILITY_H

#include "card/row_fusion/shape/row_shape.h"
#include "card/row_fusion/tiles/kernel_window.h"

// Several kernels are worth fusing when two of their tiles go over all elements; one kernel is with
// two such tiles, one of them a stream, or a reduction, or a stream that has to be converted. What
// ends with a LOAD is not. The tiles, which all have the shape, are the window's from its first
// kernel on.
bool rows_are_worth_fusing(const rows_window *w, const rows_shape *shape, const rows_tiles *tiles);

#endif
