// SPDX-License-Identifier: Apache-2.0
//
// Where a piece of a tensor lies. A box is the part of the iteration space that one pass of the
// innermost loop works on; its axes are the dims cut at stick boundaries, so that along an axis
// every address is affine. A place gives an operand's base and its stride along every axis: at home
// (in memory, or in LX when the bundle put it there) or in a tile of the back-end's. Internal.
#ifndef BACK_PLACE_H
#define BACK_PLACE_H

#include "back/nest.h"

enum {
    PLACE_MOST_AXES = 24,
    PLACE_LANES = BUNDLE_MAX_DIMS,      // the dim number of the axis over an operand's two lanes
};

// What one iteration of an open loop adds: `step` elements to dim `dim`; dim -1: nothing.
typedef struct {
    int32_t dim;
    int64_t step;
} box_loop;

typedef struct {
    int64_t start[BUNDLE_MAX_DIMS], extent[BUNDLE_MAX_DIMS];
    uint32_t open;                      // bit d: whole in dim d, whose size a launch chooses
    box_loop loop[ISA_MAX_LOOPS];
    int32_t buffer_loop;                // its index chooses between two buffers; -1: the first one
} box;

// The part of the result that a box works on: reduced dims shrink to their first index.
box box_kept(const nest *n, const box *b);

// `kept` with all that the class has along the reduced dims.
box box_reduced(const nest *n, const box *kept, const nest_class *present);

typedef struct {
    uint8_t dim;
    int64_t extent;
    int64_t step;                       // elements of the dim an index
} place_axis;

typedef struct {
    uint32_t count;
    place_axis axis[PLACE_MOST_AXES];   // in the order of N_, then by step
} place_axes;

// Axes by number, outermost first.
typedef struct {
    uint32_t count;
    uint8_t axis[PLACE_MOST_AXES];
} place_order;

typedef struct {
    isa_operand operand;                // base; its strides come from the axes that are used
    int64_t stride[PLACE_MOST_AXES];
} place;

// Part of LX: one buffer of `bytes`, or two, one behind the other.
typedef struct {
    int64_t offset;
    int64_t bytes;
    bool doubled;
} lx_region;

// Makes the box the whole of a dim, of `size` elements.
void box_span(const nest *n, box *b, uint32_t dim, int64_t size);

// The whole of a class, no loops.
box box_of_class(const nest *n, const nest_class *c);

// Boxes that together are all elements of all cores, one kernel each.
typedef struct {
    box whole;
    uint32_t cores;                     // those that have the elements of the box
    const nest_class *present;          // one of their classes, for the extents of reduced dims
} piece;

// Cores with more elements than others go on alone where the others end: what all have is one
// piece, so that they work on it at the same time. Where that cannot be cut (between sticks, or
// because reduced dims have different extents), every class that is not empty is a piece. Returns
// the count.
uint32_t pieces_of(const nest *n, piece out[BUNDLE_MAX_CORES]);

// All axes with an extent above 1; with the axis of two lanes when `lanes` is 2.
place_axes place_find_axes(const nest *n, const box *b, uint32_t lanes);

// One element in LX, whatever the axes.
place place_cell(const lx_region *region, spyre_format format);

// The operand at home.
place place_home(const nest *n, const box *b, const place_axes *axes, uint32_t operand);

// A dense tile in a region, its axes as at home: the contiguous ones innermost. Windows that
// overlap step through places that they have in common (place_windows.c).
place place_tile(const nest *n, const box *b, const place_axes *axes, uint32_t operand,
                 const lx_region *region);

// What brings the operand to that tile, each place once.
typedef struct {
    place_axes axes;
    place home, tile;
} place_copy;
place_copy place_of_load(const nest *n, const box *b, const place_axes *axes, uint32_t operand,
                         const lx_region *region);

// A dense array with the axes of `order` (fastest last), `element_bytes` from one element to the
// next along the last of them.
place place_dense(const box *b, const place_axes *axes, const place_order *order,
                  spyre_format format, int64_t element_bytes, const lx_region *region);

// The same place over other axes: those that it does not know get stride 0.
place place_project(const place *p, const place_axes *from, const place_axes *to);

// The axis over the two elements of a byte of an operand of SENINT4, along which it does not move.
uint32_t place_pair_axis(const nest *n, const place_axes *axes, uint32_t operand);

// Axes along which the place moves, widest stride first.
place_order place_sorted(const place *p, const place_axes *axes);

// Bytes of a tile whose extents are `tile`.
int64_t place_tile_bytes(const nest *n, uint32_t operand, const int64_t *tile);

#endif
