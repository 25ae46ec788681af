// SPDX-License-Identifier: Apache-2.0
//
// Axes of a tile, cut into parts: 32 lanes, two runs of them, rows and sticks.
#ifndef CARD_CUT_AXES_H
#define CARD_CUT_AXES_H

#include "card/row_fusion/shape/row_shape.h"
#include "card/row_fusion/shape/tile_axes.h"

enum { ROWS_MOST_LABEL_CUTS = 2 + 4 * NESTED_STRIDES_MOST_LEVELS };
_Static_assert(2 + ROWS_MOST_CUTS <= ROWS_MOST_LABEL_CUTS &&
               1 + ROWS_MOST_AXES <= ROWS_MOST_LABEL_CUTS, "");

typedef enum { PART_LANE, PART_UPPER, PART_ROW, PART_STICK, PARTS } rows_label;

// Pieces of axes, innermost first.
typedef struct {
    uint32_t count;
    rows_axis pieces[ROWS_MOST_AXES];
} rows_part;

typedef struct {
    rows_label of;
    uint32_t level;
    int64_t extent;
} rows_label_cut;

typedef struct {
    uint32_t count;
    rows_label_cut items[ROWS_MOST_LABEL_CUTS];
} rows_label_cuts;

void rows_add_cut(rows_label_cuts *cuts, rows_label of, uint32_t level, int64_t extent);

void rows_clear_parts(rows_part *parts);

// Cuts the axes, innermost first, where the cuts are complete.
bool rows_cut_axes(const rows_axes *list, const rows_label_cuts *cuts, rows_part *parts);

// The stride of a part in operand o, whose loops may be left out; false when it is not one stride.
bool rows_one_stride(const rows_part *p, uint32_t o, bool loops, int64_t *out_stride);

// The places of a part in operand o; false when they have too many levels.
bool nested_strides_of(const rows_part *p, uint32_t o, nested_strides *out);

// Rows and sticks come in the order of the instruction's dims, outer ones later.
bool rows_keeps_order(const rows_part *p);

// The inner part comes behind the outer one in the order of the dims, or out of the same.
bool rows_follows(const rows_part *inner, const rows_part *outer);

// The loop, counted from 1, of whose neighbouring iterations the part is all; 0: there is none.
uint32_t rows_loop_of(const rows_part *p);

// Some of the pieces are of loops.
bool rows_has_loops(const rows_part *p);

// Sorts axes, or pieces of them, as sums lie in operand o; `rows` goes along with them.
void rows_sort_as_sums(rows_axis *of, uint32_t count, uint32_t o, uint32_t *rows);

// The pieces of rows as a reduction has their sums.
rows_pieces rows_list_pieces(rows_part p);

#endif
