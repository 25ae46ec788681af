// SPDX-License-Identifier: Apache-2.0
//
// A tiling under construction: the counted loops that every op is to stand in, before the ops are
// put in order and cut. Shared by the files of the pass coarse_tile. Internal.
#ifndef FRONT_TILING_H
#define FRONT_TILING_H

#include "front/ir/loop.h"

// One counted loop around an op.
typedef struct {
    int64_t scope;    // the user's number, above 0; below 0 for one that the compiler chose
    const char *name; // of the dim
    int64_t count;    // >= 2
    uint8_t var;      // the op's loop that it cuts, or LOOP_NO_DIM
} tile_level;

typedef struct {
    uint32_t depth;
    tile_level level[LOOP_MAX_TILES]; // outermost first
    bool combined; // a reduction of one tile, which ops around it combine
} tile_path;

typedef VEC(tile_path) tile_path_list;

// What operand `operand` of op `first` reads, and other ops up to `end` of the same scope walk as
// it does.
typedef struct {
    int64_t scope;
    uint32_t first, operand, end;
} tile_copy;

typedef struct {
    loop_graph *loops;
    tile_path_list paths; // by op
    VEC(tile_copy) copies;
    // By buffer, more than that many loops around the writer are over before the value is whole:
    // what a reduction accumulates. LOOP_MAX_TILES: no such limit.
    VEC(uint8_t) whole_at;
} tiling;

// Paths from the scopes of the ops' graph nodes. SPYRE_UNSUPPORTED names op, scope, count, rule and
// the nearest count that is possible.
SPYRE_MUST_CHECK spyre_status tile_by_hints(tiling *t);

// Gives an op without a path one when no division keeps it within the span limit; writers of its
// operands have theirs.
void tile_by_spans(tiling *t, uint32_t index);

// Gives ops that pass more on to each other than LX holds, and have no path, tiles that it holds.
// *out_any: there are such ops.
SPYRE_MUST_CHECK spyre_status tile_for_lx(tiling *t, bool *out_any);

// Lets the readers of `copies` read a copy of the tile, made by an op of its own.
SPYRE_MUST_CHECK spyre_status tile_copies(tiling *t);

// A buffer like the one that operand k reads, with a dim for every loop that walks it, before it is
// cut; false where there is none.
bool tile_shape_copy(const loop_graph *loops, const loop_op *op, uint32_t k, loop_buffer *out);

// True where operand k of the op can read the copy that operand `other` of `first` reads; `var`,
// `first_var`: their loops that are cut.
bool tile_reads_alike(const loop_op *first, uint32_t other, uint8_t first_var, const loop_op *op,
                      uint32_t k, uint8_t var);

// Makes sums of exp(x - max(x)) along a cut loop one pass over its tiles.
SPYRE_MUST_CHECK spyre_status tile_online_softmax(tiling *t);

// Makes an op that reduces along a cut loop three: an identity before the loop, the op on one tile,
// the combination of its partial result with what is there.
SPYRE_MUST_CHECK spyre_status tile_reductions(tiling *t);

// Puts the ops in an order in which those of a scope follow each other, and opens their loops:
// loops->tiles, tile_depth and tiles of the ops.
SPYRE_MUST_CHECK spyre_status tile_schedule(tiling *t);

// Cuts loops, accesses and buffers.
SPYRE_MUST_CHECK spyre_status tile_apply(tiling *t);

// Sets `unrolled` of the counted loops: bundle_unroll() will do that with those nests.
void tile_mark_unrolled(loop_graph *loops);

// The scopes around the op's node (graph/hint.h), or null.
const char *tile_scopes_of(const loop_graph *loops, const loop_op *op);

// True when the level cuts a loop along which the op reduces.
bool tile_cuts_reduced(const loop_op *op, const tile_level *level);

// A buffer like another one that does not leave the graph; `whole_at` as in tiling. Id in *out.
SPYRE_MUST_CHECK spyre_status tile_add_buffer(tiling *t, uint32_t like, uint8_t whole_at,
                                              uint32_t *out);

// A constant in the format of a buffer.
SPYRE_MUST_CHECK spyre_status tile_add_constant(tiling *t, double value, uint32_t like,
                                                uint32_t *out);

// An op over the kept loops of a reduction in `path` that writes `target` and has the first `depth`
// levels; it has no operands yet.
loop_op tile_begin(const loop_op *from, const tile_path *path, opfunc func, uint32_t target,
                   uint32_t depth, tile_path *out_path);

// Puts an operand that moves as the result does, or not at all, in front of the others.
void tile_add_operand(loop_op *op, uint32_t buffer, bool moves);

// True when the op's node says that it is in that scope.
bool tile_in_scope(const loop_graph *loops, const loop_op *op, int64_t scope);

// What a loop's tiles must be multiples of, in elements: the sticks of operands along it.
int64_t tile_unit(const loop_graph *loops, const loop_op *op, uint32_t var);

// What is left of loop v inside of the first `depth` levels of the path.
static inline int64_t tile_extent(const loop_op *op, const tile_path *path, uint32_t depth,
                                  uint32_t v)
{
    int64_t extent = op->extent[v];
    for (uint32_t l = 0; l < depth; l++)
        if (path->level[l].var == v) extent /= path->level[l].count;
    return extent;
}

// Host elements by which one iteration of level `at` moves operand k of an op that is not cut yet.
int64_t tile_step(const loop_op *op, const tile_path *path, uint32_t at, uint32_t k);

// True when one iteration of level `at` reaches operand k inside one step of it alone; *out_first
// gets the index of the dim at which the first one starts. tile_step() must not be 0.
bool tile_stays_inside(const loop_graph *loops, const loop_op *op, const tile_path *path,
                       uint32_t at, uint32_t k, int64_t *out_first);

#endif
