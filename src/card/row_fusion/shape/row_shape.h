// SPDX-License-Identifier: Apache-2.0
//
// The shape that all tiles of a row fusion have: how many rows of how many sticks, and how the two
// alternate in memory.
#ifndef CARD_ROW_SHAPE_H
#define CARD_ROW_SHAPE_H

#include "card/row_fusion/row_tile.h"

enum {
    ROWS_MOST_SHAPES = 8,                   // that tiles are tried in
    ROWS_MOST_CUTS = 8,                     // of rows and sticks, together
    ROWS_WAYS = 5 * ISA_MAX_OPERANDS + 2,   // in which a tile may have a shape
};

// How rows and sticks alternate in memory, innermost first: `sticks` says whose a cut is, `level`
// which of its nest.
typedef struct {
    uint32_t sticks, level;
    int64_t extent;
} rows_cut;

// What the places of streams must be: each further one takes more tiles, and more time.
typedef enum {
    ROWS_EVEN,                              // at one stride, which may begin again
    ROWS_EVEN_IN_MEMORY,                    // in LX as they like: it may be left out
    ROWS_UNEVEN,
    ROWS_EVENNESSES
} rows_evenness;

typedef struct {
    uint32_t rows, sticks;
    rows_evenness evenness;
    uint32_t count;
    rows_cut cuts[ROWS_MOST_CUTS];
} rows_shape;

typedef struct {
    uint32_t count;
    rows_shape items[ROWS_MOST_SHAPES];
} rows_shapes;

// Shapes that tiles [0, count) may have in common, the likeliest first (shape_candidates.c).
void rows_list_candidates(const rows_tiles *tiles, rows_shapes *out_shapes);

// --- Tiles in a shape (fit_shape.c)

// The first of ROWS_WAYS in which a tile may have the shape.
uint32_t rows_first_way(const rows_shape *shape, const rows_tile *tile);

// Fills role, lanes and operands of a tile in one of these ways; false when it does not have the
// shape in this way. `earlier` are the tiles before it: a FILL among them of the same kernel makes
// sums, and elements that one of them has are the same rows and sticks here.
bool rows_place_tile(const rows_shape *shape, const rows_tiles *earlier, uint32_t way,
                     rows_tile *tile);

#endif
