// SPDX-License-Identifier: Apache-2.0
//
// How a chain is made: chain_find.c looks for kernels whose tiles have one shape (chain_shape.c)
// and may be taken block by block (chain_order.c), chain_build.c notes their steps, chain_finish.c
// drops those without a reader, chain_own.c finds what need not be in LX.
#ifndef CARD_CHAIN_BUILD_H
#define CARD_CHAIN_BUILD_H

#include "card/chain/chain.h"

// A result, or elements that were loaded.
typedef struct {
    chain_place place;                      // where LX or memory has it
    uint32_t made, last;                    // steps: the one that keeps it, the last to take it
    bool stored;                            // a result
    bool overwritten;                       // by a later result, all of it
    bool current;                           // nothing has overwritten it so far
    bool kept;                              // a later step takes it
} chain_value;

typedef struct {
    arena *memory;
    const chain_tiles *tiles;
    const plan_phase *first;
    chain *c;
    chain_value values[CHAIN_MOST_STEPS];
    uint32_t value_count;
    uint32_t in_x;                          // value, or CHAIN_NONE
    bool open;                              // the last item is a walk
    const isa_instruction *begun[CHAIN_MOST_SUMS];      // by a FILL, still to be summed
    bool folded[CHAIN_MOST_SUMS];           // only the first lane of a row counts
    bool fits;                              // what it found is within what chains can do
} chain_builder;

// True for VECTORs that a walk can do.
bool chain_streams(const isa_instruction *i);

// True when block by block, stick by stick leaves both tiles, or one, what they read and write.
bool chain_in_order(const plan_phase *first, const chain_tile *a, const chain_tile *b);

// The same elements on every core.
bool chain_same_place(const plan_phase *first, const chain_place *a, const chain_place *b);

// Fills items and steps of b->c, unless it leaves b->fits false.
SPYRE_MUST_CHECK spyre_status chain_compose(chain_builder *b);

// What may be read in LX or memory after the chain: for each value, for each tile's result.
typedef struct {
    bool value[CHAIN_MOST_STEPS], tile[CHAIN_MOST_STEPS];
} chain_live;

// Drops steps, chooses roundings, areas and the block, makes the tiles.
SPYRE_MUST_CHECK spyre_status chain_finish(chain_builder *b, const chain_live *live);

// Moves what there is one of a row, and only the chain reads, from LX to memory of the chain's own.
void chain_own_rows(chain_builder *b, const bool *tile_live);

// True when no two rows write the same bytes.
bool chain_divides(const chain *c);

#endif
