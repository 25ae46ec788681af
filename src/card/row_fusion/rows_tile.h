// SPDX-License-Identifier: Apache-2.0
//
// The tiles of kernels over rows and sticks (rows_shape.c): what becomes a row fusion.
#ifndef CARD_ROWS_TILE_H
#define CARD_ROWS_TILE_H

#include "card/row_fusion/rows.h"

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

typedef enum {
    ROWS_STREAMS,                           // VECTOR over all elements
    ROWS_REDUCES,                           // REDUCE, REDUCESQ of all elements to sums of a row
    ROWS_BY_ROW,                            // anything over 1 element a row, or over its sums
    ROWS_CONSTANT,                          // FILL of one element
} rows_role;

typedef struct {
    rows_place place;
    int64_t lane;                           // bytes from lane to lane; 0: one element a row
    uint32_t sums;                          // or ROWS_NONE
    bool constant;                          // `value`, as a FILL of its kernel says
    float value;
    byte_range range;                       // bytes it touches, of a core with parameter 0
} rows_access;

// Rows as pieces of the loops and dims of a tile, innermost first: rows of index n of a piece lie n
// times so many rows further on.
typedef struct {
    uint32_t count;
    struct {
        int64_t extent;
        uint32_t rows, order;               // order: of the loop or dim, outermost first
        bool loop;
    } of[ISA_MAX_DIMS + ISA_MAX_LOOPS];
} rows_pieces;

// Messages of all cores as one map between their LX (rows_messages.c).
typedef struct rows_messages rows_messages;

// One tile of a kernel.
typedef struct rows_tile {
    const plan_tile *tile;
    uint32_t at, kernel;
    loop_nest loops;
    bool joined;                            // for all cores at once (rows_join_cores.c):
    uint32_t cores;                         // so many of the loops, the outermost, go over cores
    byte_range reach[ISA_MAX_OPERANDS];     // bytes of one core's LX that an operand says
    const rows_messages *sent[ISA_MAX_OPERANDS];    // that bring what it reads; or NULL
    uint32_t outer;                         // of the loops, that stay outside: none or all
    rows_role role;
    uint32_t lanes;                         // BY_ROW: elements a row; REDUCES: sums a row: 64, or
                                            // of IEEE_FP32 32; STREAMS: 0
    uint32_t rows, sticks;                  // of the shape
    uint32_t rest;                          // REDUCES: lanes of a row's last stick; or 0: all
    bool rest_of_each;                      // of each stick
    uint32_t rest_sticks;                   // else: a row's, no loop around them sums more
    bool in_order;                          // rows are in the order of loops and dims
    uint32_t upper_loop;                    // whose iterations, by twos, are both runs of a stick:
                                            // counted from 1; 0: none
    bool loops_are_rows;                    // the loops around go over rows alone
    bool stays_inside;                      // its result must never reach LX: the row fusion alone
                                            // reads it, and something else lies there before it
    rows_pieces pieces;                     // STREAMS, REDUCES
    rows_access operand[ISA_MAX_OPERANDS];
} rows_tile;
typedef VEC(rows_tile) rows_tiles;

// Bytes from the first lane of a BY_ROW tile's elements of a stick to that of the second run.
static inline int64_t rows_second_run(const rows_access *a)
{
    return a->place.upper ? a->place.upper : a->lane * (SIMD_LANES / 2);
}

// Shapes in which tiles [0, count) may agree, the likeliest first.
void rows_guess_shapes(const rows_tiles *tiles, rows_shapes *out_shapes);

// The first of ROWS_WAYS in which a tile may have the shape.
uint32_t rows_first_way(const rows_shape *shape, const rows_tile *tile);

// Fills role, lanes and operands of a tile in one of these ways; false when it does not have the
// shape in this way. `earlier` are the tiles before it: a FILL among them of the same kernel makes
// sums, and elements that one of them has are the same rows and sticks here.
bool rows_place_tile(const rows_shape *shape, const rows_tiles *earlier, uint32_t way,
                     rows_tile *tile);

#endif
