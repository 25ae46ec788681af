// SPDX-License-Identifier: Apache-2.0
//
// The loop IR while it is being compiled, for passes of users: ops in order, each one opfunc over
// counted loops, which reaches its operands through affine accesses (docs/front.md).
// The library owns it; a pass reads it and asks for edits, which are checked as a whole and then
// made, or refused with the pass, the op and the rule. Valid only during the call of the pass, on
// its thread.
#ifndef SPYRE_LOOPS_H
#define SPYRE_LOOPS_H

#include <stdbool.h>

#include "spyre/dtype.h"
#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_LOOPS_MOST_LOOPS = 8, SPYRE_LOOPS_MOST_OPERANDS = 6, SPYRE_LOOPS_MOST_DIMS = 10,
       SPYRE_LOOPS_MOST_TILES = 4 };

// In the place of what a stick runs along.
enum {
    SPYRE_LOOPS_SPARSE = -1,   // one element a stick
    SPYRE_LOOPS_NO_STICK = -2, // no layout yet
};

typedef struct spyre_loops spyre_loops;

// When a pass is called, for every card segment. What it may change there:
typedef enum {
    SPYRE_LOOPS_PRE_LAYOUT,     // no result has a layout yet: order, ops, sticks of results
    SPYRE_LOOPS_PRE_SCHEDULING, // sticks are chosen, nothing is divided: order, ops, divisions,
                                // which the compiler's own passes then leave and adapt others to
    SPYRE_LOOPS_PRE_FUSION,     // every op is divided: the same
    SPYRE_LOOPS_POST_FUSION,    // buffers have their places: notes only
} spyre_loops_point;

typedef struct {
    int64_t extent;
    int32_t slices;         // cores along the loop; 1: not divided
    bool reduced, stick;    // the result does not move along it; its stick runs along it
    const char *dim;        // the user's name of the dim that it walks, or null
} spyre_loop;

// Element of the dense host tensor that the buffer stands for: offset + sum of index * stride.
typedef struct {
    uint32_t buffer;
    int64_t offset, stride[SPYRE_LOOPS_MOST_LOOPS];
} spyre_loop_access;

// A counted loop around an op, each iteration of which works on one tile.
typedef struct {
    uint32_t group;         // ops of one loop have the same
    int64_t count;
    uint32_t cut;           // bit v: the op's loop v is a tile of what it was
} spyre_loop_tiles;

typedef struct {
    const char *name;       // of the graph value that it computes
    const char *opfunc, *location;  // location and note: or null
    const char *note;
    const char *hints;      // scopes of tiles that the user asked for, as spyre_graph_set_tiles()
                            // takes them, or null
    uint32_t tile_count;    // outermost first
    spyre_loop_tiles tiles[SPYRE_LOOPS_MOST_TILES];
    uint32_t loop_count;    // outermost first
    spyre_loop loops[SPYRE_LOOPS_MOST_LOOPS];
    uint32_t operand_count; // inputs, then the result
    spyre_loop_access operands[SPYRE_LOOPS_MOST_OPERANDS];
} spyre_loop_op;

typedef struct {
    const char *name;
    const char *kind;       // "input", "constant" or "local"
    spyre_dtype dtype;
    bool leaves;            // is a result of the segment
    bool in_lx;             // SPYRE_LOOPS_POST_FUSION: kept in the scratchpad
    uint32_t dim_count;     // dims above 1 of the dense host tensor, by ascending stride
    int64_t extent[SPYRE_LOOPS_MOST_DIMS], stride[SPYRE_LOOPS_MOST_DIMS];
    int32_t stick;          // the dim along the stick, or SPYRE_LOOPS_SPARSE, .._NO_STICK
    uint8_t order[SPYRE_LOOPS_MOST_DIMS]; // with a layout: dims on the card, fastest first
} spyre_loop_buffer;

SPYRE_API uint32_t spyre_loops_op_count(const spyre_loops *loops);
SPYRE_API uint32_t spyre_loops_buffer_count(const spyre_loops *loops);

// Strings live as long as the call of the pass. SPYRE_INVALID_ARGUMENT for an index out of range.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_loops_op(const spyre_loops *loops, uint32_t index,
                                                       spyre_loop_op *out_op);
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_loops_buffer(const spyre_loops *loops, uint32_t index,
                                                           spyre_loop_buffer *out_buffer);

// What the cost model of the compiler's planners predicts for an op under the division and the
// places that it has so far: us and bytes of all executions.
typedef struct {
    const char *name;       // as in spyre_loop_op
    const char *opfunc;
    uint32_t cores, tile_count;
    spyre_loop_tiles tiles[SPYRE_LOOPS_MOST_TILES]; // the counted loops around it; `cut` is 0
    int64_t executions;     // by them; 1 without any
    double us;              // of a kernel for this op; parts that overlap it:
    double memory_us, compute_us, ring_us;
    int64_t memory_bytes;   // read and written, in whole sticks
    int64_t reread_bytes;   // of these, read another time: by later tiles or executions
    int64_t lx_bytes;       // that ONE execution touches in the scratchpads of all cores
} spyre_op_cost;

// SPYRE_INVALID_ARGUMENT for an index out of range, and at SPYRE_LOOPS_PRE_LAYOUT. Any thread.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_loops_op_cost(const spyre_loops *loops,
                                                            uint32_t index,
                                                            spyre_op_cost *out_cost);

// An op of the new order: which one it is now, its slices (one a loop, null: as they are) and its
// note (null: as it is), which the text of the loop IR shows.
typedef struct {
    uint32_t op;
    int32_t stick;          // SPYRE_LOOPS_PRE_LAYOUT: the loop along which the result's stick is to
                            // run, plus one, or SPYRE_LOOPS_SPARSE; 0: as the compiler chooses
    const int32_t *slices;
    const char *note;
} spyre_loop_edit;

// Makes these ops, in this order, the whole program; those that are missing go.
// SPYRE_INVALID_ARGUMENT names pass, op and rule, and nothing is changed: an op that is named
// twice, one that reads what is written behind it, one that goes although its result is needed,
// slices that do not divide a loop or need more cores than there are, an edit that the point does
// not allow.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_loops_edit(spyre_loops *loops, const char *pass,
                                                         const spyre_loop_edit *ops,
                                                         uint32_t count);

// A pass; false ends the compilation with SPYRE_INVALID_ARGUMENT.
typedef bool spyre_loops_pass(void *context, spyre_loops_point point, spyre_loops *loops);

#ifdef __cplusplus
}
#endif
#endif
