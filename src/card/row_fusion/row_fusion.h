// SPDX-License-Identifier: Apache-2.0
//
// Row fusion: what consecutive kernels do with the same rows, done for one block of rows after the
// other. A row fusion is a list of items: vector programs (card/simd/vector_program.h), which take
// the sticks of a row through many instructions while they are in registers, and per-row values, as
// plain tiles. Values that a later vector program needs stay in fp32 beside it; a store to LX that
// has no reader afterwards is left out, or goes to scratch memory of the row fusion. Every rounding
// of the instructions stays, so do their orders of additions.
//
// pass/fuse_rows.c searches for kernels that make one, step by step in these folders, of which each
// includes those before it:
//
//     cores/       the tiles of all cores as one tile; messages between cores as a map
//     tiles/       the tiles of consecutive kernels, peeled iterations and partial sticks joined
//     shape/       candidates for rows and sticks; a tile's dims cut into rows, sticks and lanes
//     conditions/  whether tiles may be one row fusion, and gain by it: dependences, later readers
//     program/     steps of vector programs: dead ones dropped, loads hoisted, the block's size
//     run/         execution by a host thread
#ifndef CARD_ROW_FUSION_H
#define CARD_ROW_FUSION_H

#include "card/footprint/lx_liveness.h"
#include "card/machine.h"
#include "card/row_fusion/nested_strides.h"
#include "card/simd/vector_program.h"

#define ROWS_NONE UINT32_MAX
enum {
    ROWS_MOST_ROWS = 64,                    // of a block
    ROWS_MOST_LISTED = ROWS_MOST_ROWS + VECTOR_UNITS_AHEAD,
    ROWS_MOST_STEPS = 112,
    ROWS_MOST_SUMS = 4,                     // sums of rows that live at once
    ROWS_MOST_PASSING = VECTOR_SLOTS,       // values that live at once in a vector program
    ROWS_MOST_OWN = 8,                      // values of rows without another reader,
    ROWS_OWN_BYTES = ROWS_MOST_ROWS * 4,    // of so many bytes each
    ROWS_KEPT_FLOATS = 64 << 10,            // of all values that are kept
    ROWS_LINE_BYTES = 64,                   // of the host's caches
};

// Where an operand has its elements: of a row and a stick at offset and where both nests have them,
// those from lane 32 on `upper` bytes further. In iteration i of loop n that stays outside of the
// row fusion they lie i * outer[n] further on. `upper` of a per-row tile's lanes is 0 where all of
// them lie at one stride.
typedef struct {
    isa_space space;
    spyre_format format;
    bool own;                               // elsewhere: in scratch of the row fusion, for a block
    uint16_t arg, slot;
    uint32_t kernel;                        // whose parameters; counted from the row fusion's first
    int64_t offset, upper;
    nested_strides row, stick;
    int64_t outer[ISA_MAX_LOOPS];
} rows_place;

// Elements of the windows of a block's rows that overlap, each converted once
// (overlapping_windows.c): in runs of places, which are neighbours there.
typedef struct {
    uint32_t first, count;
} rows_run_of_sticks;

typedef struct {
    uint32_t area;                          // sticks from the first behind lines to its own
    const int64_t *at;                      // bytes from the block's first element to each
    struct {
        uint32_t count;
        const rows_run_of_sticks *items;
    } runs[2];                              // of a whole block, of the rows that are left
    const int64_t *row_at, *stick_at;       // bytes there, as of a vector_step
} rows_overlap;

typedef struct {
    uint32_t op;                            // as in vector_step
    vector_rounding rounding;
    rows_place place;                       // of elements, of one element a row
    bool inverse;                           // VECTOR_ROWS_Y: of 1 / element of SEN169_FP16
    bool filled;                            // VECTOR_ROWS_X, _Y: `begin` in all rows, by a FILL
    uint32_t area;                          // of kept values, of a line, of sums
    bool passes;                            // a kept value: gone when its vector program goes on
    uint32_t value;                         // while it is built: which value it makes or takes
    const uint16_t *table;
    float constant[OPFUNC_MAX_PARAMETERS];  // the instruction may be gone when the plan is made
    bool begins, folds;
    float begin;
    uint32_t rest;                          // of sums: lanes of a row's last stick; or 0: all
    bool rest_of_each;                      // of each stick
    bool streams;                           // STORE: past the host's caches, where lines begin;
                                            // LOAD_X, WIDE_X: stick by stick, not row by row
    const int64_t *row_at, *stick_at;       // bytes from a block's first row, or stick, to each;
                                            // NULL: rows of blocks lie differently
    const rows_overlap *overlap;            // LOAD_X: it takes values that are ready; or NULL
} rows_step;

// An operand of a tile.
typedef struct {
    rows_place place;
    uint32_t sums;                          // or ROWS_NONE: it is a row's first sum there
    bool constant;                          // it is `value`
    float value;
} rows_operand;

typedef struct {
    uint32_t first, count;                  // steps of a vector program; none: a tile
    uint32_t operands, lanes;               // of a tile; elements a row
    bool once;                              // a block: in the first of its iterations alone
    plan_tile *tile[2];                     // for a whole block, for the rows that are left
    rows_operand *operand;
    const struct rows_tile *made_of;        // while it is built
} rows_item;

struct row_fusion {
    uint32_t kernels;                       // that it stands for
    uint32_t loops;                         // around it; each iteration takes all rows, but for
    uint32_t inner;                         // the innermost ones, which a block goes through
    uint32_t iterations[ISA_MAX_LOOPS];
    uint32_t rows, sticks;
    uint32_t group;                         // rows, all or those of a core, say, which a block
                                            // begins anew
    uint32_t block;                         // rows at a time; the last ones of a group may be less
    uint32_t rows_ahead;                    // of row_at, listed behind a block's
    bool half;                              // elements of a stick are its first run alone
    bool joined;                            // over all cores: places lie from core 0's LX on, and
                                            // in memory without parameters
    uint32_t kept;                          // areas of kept values, a block of all sticks each
    uint32_t passing;                       // slots of those that pass
    uint32_t lines;                         // areas of one row, the same for all rows
    uint32_t overlapping;                   // sticks of windows that overlap
    bool divisible;                         // blocks may be done in any order, by several threads
    VEC(rows_step) steps;
    VEC(rows_item) items;
};

// Sticks of values and lines that are kept meanwhile; overlapping windows lie behind them.
static inline size_t rows_kept_sticks(const row_fusion *c)
{
    return ((size_t)c->kept * c->block + c->lines) * c->sticks;
}

// Rows of the last block of a group; 0: as many as of the others.
static inline uint32_t rows_left(const row_fusion *c)
{
    return c->group % c->block;
}

// True when what the step, or the tile's operand, takes or makes is in LX.
bool rows_step_in_lx(const rows_step *s);
bool rows_operand_in_lx(const rows_operand *o);

// The bytes that such a step touches over all rows, sticks and loops; whole sticks. Of LX, those of
// one core.
byte_range rows_step_range(const row_fusion *c, const rows_step *s);

// True for ops that keep a value or take one.
bool rows_takes_kept(uint32_t op);

// True when nothing but vector programs touches an argument, and those in whole sticks.
bool rows_takes_halves(const row_fusion *c, uint32_t argument);

// What vector programs do with an argument.
typedef struct {
    bool loads, stores;
} rows_uses;
void rows_add_uses(const row_fusion *c, uint32_t argument, rows_uses *uses);

#endif
