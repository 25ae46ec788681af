// SPDX-License-Identifier: Apache-2.0
//
// The dims of a tile and the loops around it, as axes with a stride in every operand.
#ifndef CARD_TILE_AXES_H
#define CARD_TILE_AXES_H

#include "card/row_fusion/row_tile.h"

enum { ROWS_MOST_AXES = ISA_MAX_DIMS + ISA_MAX_LOOPS };

typedef struct {
    int64_t extent, stride[ISA_MAX_OPERANDS];
    uint32_t order;                         // outermost first
    uint32_t level;                         // of a piece: which of its label's
    int64_t before;                         // of a piece: elements of the axis inside of it
    bool loop;
} rows_axis;

typedef struct {
    uint32_t count, operands;
    rows_axis axes[ROWS_MOST_AXES];
} rows_axes;

// Those of more than one index.
void rows_axes_of(const rows_tile *t, rows_axes *out);

// Elements of all dims, and of the loops, too.
int64_t rows_axes_elements(const rows_axes *list, bool loops);

// By rising stride of operand o; false when a stride is not positive.
bool rows_axes_sort(rows_axes *list, uint32_t o);

#endif
