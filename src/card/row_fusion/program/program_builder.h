// SPDX-License-Identifier: Apache-2.0
//
// The vector programs of a row fusion in the making. compose_program.c notes the steps of tiles,
// merge_programs.c joins vector programs, dead_steps.c drops steps without a reader and
// redundant_rounding.c roundings, per_row_scratch.c takes per-row values out of LX,
// loop_invariant_loads.c hoists loads, block_size.c chooses the rows of a block. For that,
// value_areas.c finds room for kept values, streaming_steps.c says which steps pass the host's
// caches, overlapping_windows.c converts the sticks that windows share.
#ifndef CARD_PROGRAM_BUILDER_H
#define CARD_PROGRAM_BUILDER_H

#include "card/row_fusion/row_tile.h"

// A result, or elements that were loaded.
typedef struct {
    rows_place place;                       // where LX or memory has it
    uint32_t made, last;                    // steps: the one that keeps it, the last to take it
    bool stored;                            // a result
    bool overwritten;                       // by a later result, all of it
    bool current;                           // nothing has overwritten it so far
    bool kept;                              // a later step takes it
    bool passes;                            // none of another vector program does
} rows_value;

// One after the other: `c` keeps the room of its lists.
typedef struct {
    arena *memory, *scratch;                // of the plan; of the passes
    const rows_tiles *tiles;
    const plan_phase *first;
    row_fusion *c;                          // in the making; its lists are in scratch
    rows_value *values;                     // [ROWS_MOST_STEPS]
    uint32_t value_count;
    uint32_t in_x;                          // value, or ROWS_NONE
    bool open;                              // the last item is a vector program
    const isa_instruction *begun[ROWS_MOST_SUMS];      // by a FILL, still to be summed
    bool folded[ROWS_MOST_SUMS];            // only the first lane of a row counts
    bool fits;                              // what it found is within what row fusions can do
} rows_builder;

// Fills items and steps of b->c, unless it leaves b->fits false.
SPYRE_MUST_CHECK spyre_status rows_compose_program(rows_builder *b);

// Joins vector programs that need nothing of the tiles between them. A value is live that may be
// read in LX or memory after the row fusion.
void rows_merge_programs(const rows_builder *b, const bool *value_live);

// Drops steps that only make values without readers.
void rows_drop_dead_steps(rows_builder *b, const bool *value_live);

// Rounds values of a vector program, and makes their NaN positive and quiet, no more than their
// readers need.
void rows_drop_roundings(const rows_builder *b, uint32_t count, rows_step *steps);

// Elements that the innermost loops load again and again are kept instead, where iterations of
// those loops may be taken block by block (loop_invariant_loads.c).
SPYRE_MUST_CHECK spyre_status rows_hoist_loads(rows_builder *b);

// Moves per-row values that only the row fusion reads from LX to its scratch. A tile is live whose
// result may be read after the row fusion.
void rows_move_to_scratch(rows_builder *b, const bool *tile_live);

// Chooses areas and the block and makes the tiles, unless it leaves b->fits false.
SPYRE_MUST_CHECK spyre_status rows_make_blocks(rows_builder *b);

// Windows of a block that overlap get an area in which each element is converted once.
SPYRE_MUST_CHECK spyre_status rows_share_windows(rows_builder *b);

// --- What rows_make_blocks() asks for

// An area for each value that is kept and each line; how many there are.
void rows_choose_areas(rows_builder *b);

// Which steps go past the host's caches, or take the elements of a block stick by stick.
void rows_choose_streaming(const rows_builder *b);

#endif
