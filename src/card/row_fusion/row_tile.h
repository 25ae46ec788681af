// SPDX-License-Identifier: Apache-2.0
//
// A kernel's tile on its way into a row fusion: its operands by rows, sticks and lanes.
#ifndef CARD_ROW_TILE_H
#define CARD_ROW_TILE_H

#include "card/row_fusion/row_fusion.h"

enum {
    ROWS_LANES = SIMD_LANES,                // of a stick
    ROWS_RUN = ROWS_LANES / 2,              // of them, side by side
};

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

// Messages of all cores as one map between their LX (cores/message_map.h).
typedef struct rows_messages rows_messages;

// One tile of a kernel.
typedef struct rows_tile {
    const plan_tile *tile;
    uint32_t at, kernel;
    loop_nest loops;
    bool joined;                            // for all cores at once (joined_cores.c):
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
    bool half;                              // STREAMS: elements are the first run of each stick
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

// Sums of a row of elements of the format: lanes of its sticks.
static inline uint32_t rows_sums_of(spyre_format format)
{
    return format == SPYRE_FORMAT_IEEE_FP32 ? ROWS_RUN : ROWS_LANES;
}

// The tile does what a copy of the instruction says.
SPYRE_MUST_CHECK spyre_status rows_set_tile(arena *memory, const isa_instruction *i, rows_tile *t);

// The result of a tile may lie over operand o of the other one; the reach of both is known.
bool rows_writes_into(const rows_tile *from, const rows_tile *t, uint32_t o);

// Sets the bytes that operands touch in all iterations.
void rows_find_reach(rows_tile *t);

#endif
