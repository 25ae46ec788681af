// SPDX-License-Identifier: Apache-2.0
//
// How a row fusion is made: pass/fuse_rows.c looks for kernels whose tiles (rows_collect.c, in a
// window of rows_window.c) agree (rows_agree.c): they have one shape (rows_shape.c, with rows_cut.c
// and rows_place.c) and may be taken block by block (rows_order.c). rows_compose.c notes their
// steps, rows_merge.c joins vector programs, rows_prune.c drops steps without a reader,
// rows_private.c finds what need not be in LX, rows_block.c chooses the rows of a block.
#ifndef CARD_ROWS_BUILD_H
#define CARD_ROWS_BUILD_H

#include "card/row_fusion/rows_tile.h"

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

// Adds the tiles of a kernel; *out_good is false when there are none, or some that a row fusion
// cannot have. Several of them must stand in the same loops.
SPYRE_MUST_CHECK spyre_status rows_collect(const isa_program *program, plan_tile *const *forwarded,
                                           const plan_kernel *kernel, arena *scratch,
                                           rows_tiles *out, bool *out_good);

// --- Parts of sticks (rows_rest.c)

// A reduction that is the rest of one before it, from tile `own` on, becomes part of it. Others may
// stand between them: a sum and a sum of squares take turns.
SPYRE_MUST_CHECK spyre_status rows_join_reduction(arena *scratch, const isa_kernel *kernel,
                                                  rows_tiles *tiles, uint32_t own,
                                                  const rows_tile *t, bool *out_joined);

// A reduction of the first lanes of every stick gets all of them, and a note of how many count.
SPYRE_MUST_CHECK spyre_status rows_widen_sticks(arena *scratch, const isa_kernel *kernel,
                                                rows_tile *t);

// --- Cores (rows_join_cores.c)

// Makes tiles from `first` on, all those of a kernel, the tiles of all its cores: cores are loops
// around. *out_good is false where cores do not lie at equal distances.
SPYRE_MUST_CHECK spyre_status rows_join_cores(const isa_kernel *kernel, arena *scratch,
                                              uint32_t first, rows_tiles *tiles, bool *out_good);

// --- Messages (rows_messages.c)

enum { ROWS_MESSAGE_LEVELS = ISA_MAX_DIMS + 6 };

// Index i has a digit for each level, by rising `to`; its element goes from the sum of digits times
// `from` to that of digits times `to`, both from LX of core 0 on.
struct rows_messages {
    spyre_format format;
    uint32_t levels;
    struct {
        int64_t extent, to, from;
    } level[ROWS_MESSAGE_LEVELS];
    int64_t to, from;
    byte_range received, sent;              // of one core's LX
    uint32_t kernel;                        // which, from the first of the search on
    bool stale;                             // something else lies where they came from
};

// False when the messages of a kernel do not make one map.
SPYRE_MUST_CHECK spyre_status rows_map_messages(arena *scratch, const message_copies *copies,
                                                rows_messages *out, bool *out_good);

// The map from senders to receivers; false when it does not go back.
bool rows_messages_turn(const rows_messages *m, rows_messages *out);

// Where what lies `offset` bytes behind the receivers' LX came from.
bool rows_messages_offset(const rows_messages *m, int64_t offset, int64_t *out);

// Pieces of a level of the receivers, as it lies with the senders: adds them to `out`.
bool rows_messages_level(const rows_messages *m, int64_t extent, int64_t stride, rows_nest *out);

// The same of a place: its rows, sticks and runs of lanes, all of which were received.
bool rows_messages_place(const rows_messages *m, int64_t lanes, int64_t lane, rows_place *place);

// The bytes of one core's LX that have what operand o touches.
static inline byte_range rows_reach(const rows_tile *t, uint32_t o)
{
    return t->sent[o] ? t->sent[o]->sent : t->reach[o];
}

// --- Which messages brought what (rows_sources.c)

enum { ROWS_MOST_MAPS = 24 };

// Of kernels that are followed in their order; zero before the first one.
typedef struct {
    uint32_t count, receivers;
    rows_messages *maps[ROWS_MOST_MAPS];
    uint8_t brought_by[ISA_LX_BYTES / SPYRE_STICK_BYTES];  // map n: n + 1; 0: a core's own
} rows_sources;

// The next kernel, `number` of them, brings messages to cores. False where what it sends has been
// brought itself.
bool rows_receive(rows_sources *s, rows_messages *map, uint32_t cores, uint32_t number);

// The next kernel has tiles from `first` on: fills `sent` of what they read. False
// where they read what is no longer where it was sent from, or a mixture.
bool rows_find_sources(rows_sources *s, uint32_t first, rows_tiles *tiles);

// The last kernel surely wrote all these bytes.
void rows_replace(rows_sources *s, const plan_kernel *kernel, const lx_ranges *replaced);

// --- Streams and sums

// Sums of a row of elements of the format: lanes of its sticks.
uint32_t rows_sums_of(spyre_format format);

// True for VECTORs that vector programs have an op for.
bool rows_streams(const isa_instruction *i);

// True when block by block, stick by stick leaves both tiles, or one, what they read and write. All
// tiles from a to b stand behind each other; `tiles` is the first one of all.
bool rows_in_order(const plan_phase *first, const rows_tile *tiles, const rows_tile *a,
                   const rows_tile *b);

// No two rows of a stream at this place share a byte.
bool rows_lie_apart(const rows_place *p);

// The same elements on every core.
bool rows_same_place(const plan_phase *first, const rows_place *a, const rows_place *b);

// Fills items and steps of b->c, unless it leaves b->fits false.
SPYRE_MUST_CHECK spyre_status rows_compose(rows_builder *b);

// Joins vector programs that need nothing of the tiles between them. A value is live that may be
// read in LX or memory after the row fusion.
void rows_merge(const rows_builder *b, const bool *value_live);

// Drops steps that only make values without readers.
void rows_prune(rows_builder *b, const bool *value_live);

// Rounds values of a vector program, and makes their NaN positive and quiet, no more than their
// readers need.
void rows_relax(const rows_builder *b, uint32_t count, rows_step *steps);

// Elements that the innermost loops load again and again are kept instead, where iterations of
// those loops may be taken block by block (rows_reuse.c).
SPYRE_MUST_CHECK spyre_status rows_reuse_loads(rows_builder *b);

// Iterations of so many innermost loops touch nothing of each other's in memory and LX, and no row
// anything of another row's, but what they only read.
bool rows_loops_turn(const row_fusion *c, const plan_phase *first, uint32_t loops);

// Moves per-row values that only the row fusion reads from LX to memory of its own. A tile is live
// whose result may be read after the row fusion.
void rows_make_private(rows_builder *b, const bool *tile_live);

// Chooses areas and the block and makes the tiles, unless it leaves b->fits false.
SPYRE_MUST_CHECK spyre_status rows_make_blocks(rows_builder *b);

// Windows of a block that overlap get an area in which each element is converted once.
SPYRE_MUST_CHECK spyre_status rows_find_overlaps(rows_builder *b);

// True when no two rows write the same bytes.
bool rows_divides(const row_fusion *c);

#endif
