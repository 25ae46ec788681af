// SPDX-License-Identifier: Apache-2.0
//
// Chains: what consecutive fused kernels of a core do with the same rows, done for one block of
// rows after the other. A chain is a list of items: walks (card/strip/walk.h), which take sticks of
// a row through many instructions while they are in registers, and what there is one of a row, as
// plain tiles. Values that a later walk needs stay in fp32 beside it; a store to LX that
// has no reader afterwards is left out, or goes to memory of the chain's own. Every rounding of the
// instructions stays, so do their orders of additions.
#ifndef CARD_CHAIN_H
#define CARD_CHAIN_H

#include "card/fuse/lx_flow.h"
#include "card/machine.h"
#include "card/strip/walk.h"

#define CHAIN_NONE UINT32_MAX
enum {
    CHAIN_MOST_ROWS = 64,                   // of a block
    CHAIN_MOST_STEPS = 96,
    CHAIN_MOST_SUMS = 4,                    // sums of rows that live at once
    CHAIN_MOST_OWN = 8,                     // values of rows without another reader,
    CHAIN_OWN_BYTES = CHAIN_MOST_ROWS * 4,  // of so many bytes each
    CHAIN_KEPT_FLOATS = 32 << 10,           // of all values that are kept
};

// Where an operand has its elements: of row r and stick s at offset + r * row + s * stick; where
// there is a period, of row r % period.
typedef struct {
    isa_space space;
    bool own;                               // not there: in the chain's own memory, a block's rows
    uint16_t arg, slot;
    uint32_t kernel;                        // whose parameters; counted from the chain's first
    int64_t offset, row, stick;
    uint32_t period;                        // of an operand that is read: rows, whole blocks; or 0
} chain_place;

typedef struct {
    uint32_t verb;                          // as in walk_step
    walk_rounding rounding;
    chain_place place;                      // of elements, of one element a row
    bool inverse;                           // WALK_WITH_ROWS: of 1 / element
    uint32_t area;                          // of kept values, of a line, of sums
    uint32_t value;                         // while it is built: which value it makes or takes
    const uint16_t *table;
    const float *constant;
    bool begins, folds;
    float begin;
} chain_step;

// An operand of a tile.
typedef struct {
    chain_place place;
    uint32_t sums;                          // or CHAIN_NONE: it is a row's first sum there
    bool constant;                          // it is `value`
    float value;
} chain_operand;

typedef struct {
    uint32_t first, count;                  // steps of a walk; none: a tile
    plan_tile *tile[2];                     // for a whole block, for the rows that are left
    chain_operand operand[ISA_MAX_OPERANDS];
    const struct chain_tile *made_of;       // while it is built
} chain_item;

typedef struct {
    uint32_t begin, end;
} chain_rows;

struct chain {
    uint32_t kernels;                       // that it stands for
    uint32_t rows, sticks, block;           // block: rows at a time
    uint32_t kept;                          // areas of kept values, a block of all sticks each
    uint32_t lines;                         // areas of one row, the same for all rows
    bool divisible;                         // blocks may be done in any order, by several threads
    VEC(chain_step) steps;
    VEC(chain_item) items;
};

// --- Kernels as tiles over rows and sticks (chain_shape.c)

typedef struct {
    uint32_t rows, sticks;
    bool sticks_outside;                    // neighbours in memory are rows
} chain_shape;

typedef enum {
    CHAIN_STREAMS,                          // VECTOR over all elements
    CHAIN_REDUCES,                          // REDUCE, REDUCESQ of all elements to 64 sums a row
    CHAIN_BY_ROW,                           // anything over 1 or 64 elements a row
    CHAIN_CONSTANT,                         // FILL of one element
} chain_role;

typedef struct {
    chain_place place;
    int64_t lane;                           // bytes from lane to lane; 0: one element a row
    uint32_t sums;                          // or CHAIN_NONE
    bool constant;                          // `value`, as a FILL of its kernel says
    float value;
    int64_t low, high;                      // bytes it touches, of a core with parameter 0
} chain_access;

// One fused tile of a kernel.
typedef struct chain_tile {
    const plan_tile *tile;
    uint32_t at, kernel;
    lx_place loops;
    chain_role role;
    uint32_t lanes;                         // BY_ROW: elements a row
    bool loops_are_rows;                    // the loops around go over rows, outermost first
    chain_access operand[ISA_MAX_OPERANDS];
} chain_tile;
typedef VEC(chain_tile) chain_tiles;

// The shape in which tiles [0, count) may agree; false when there is none.
bool chain_guess_shape(const chain_tiles *tiles, chain_shape *out_shape);

// Fills role, lanes and operands of a tile; false when it does not have the shape. `earlier` are
// the tiles before it: a FILL among them of the same kernel makes sums.
bool chain_place_tile(const chain_shape *shape, const chain_tiles *earlier, chain_tile *tile);

// --- Building

// Gives kernels their chains: the first kernel of each gets it. phases[0..count) are kernels of
// which each may follow the one before without meeting. fused[at] as in fuse.h.
SPYRE_MUST_CHECK spyre_status chain_build(arena *memory, arena *scratch,
                                          const isa_program *program, plan_tile *const *fused,
                                          const lx_summaries *lx, const plan_phase *phases,
                                          uint32_t count);

// --- Running

// True for verbs of steps that have a place.
bool chain_takes_elements(uint32_t verb);

// Takes a core through all kernels of a chain, for rows from `begin`, where a block begins, to
// `end`, where one or the chain ends; `first` is the phase of the first kernel.
void chain_run(core_run *run, const chain *c, const plan_phase *first, chain_rows rows);

#endif
