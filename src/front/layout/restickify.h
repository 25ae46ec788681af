// SPDX-License-Identifier: Apache-2.0
//
// Changing the stick dim of an operand. One ReStickifyOpHBM moves the stick from any variable to
// any other, also where a view cuts the stick into equal parts (heads of 32 in sticks of 64,
// patches of 16 in lines of 224: src/front/ir/locate.c). Other views of parts of sticks (a head of
// 48, a slice that begins inside of a stick) take two: the stick first moves to a dim that the view
// leaves whole, where the cut dim may be split freely, and then to where the op wants it. So heads
// of any size are an ordinary case. A view that leaves no long dim whole (the inner part of an
// image) is cut dim by dim: a copy whose stick dim begins where the view does, from one whose stick
// is elsewhere.
#ifndef FRONT_RESTICKIFY_H
#define FRONT_RESTICKIFY_H

#include "front/ir/loop.h"

// A stick of which so small a part is filled is mostly empty: another dim is worth a copy.
enum { RESTICKIFY_EMPTY = 4 };

typedef struct {
    loop_graph *loops;
    loop_op_list *ops; // the new op order; restickify ops are appended
    bool forgets;      // equal copies are made again: what is done is not looked up
    map_bytes done;    // restickify_key -> local buffer
} restickifier;

// What a copy takes from where, how it numbers the elements (a region keeps the strides of its
// source, a piece is dense), and along which of its loops its stick runs; without padding.
typedef struct {
    uint32_t source, whole, stick;
    uint32_t spare; // 0; for callers that tell copies apart in other ways too
    int64_t offset, extent[LOOP_MAX_VARS], stride[LOOP_MAX_VARS], target_stride[LOOP_MAX_VARS];
} restickify_key;

restickify_key restickify_key_of(const loop_graph *loops, const loop_op *copy);

// True for an op that copies all of an output buffer, element by element, from somewhere: it can
// change the stick on its way.
bool restickify_is_copy_out(const loop_graph *loops, const loop_op *op);

// Makes operand `operand` of `op` (not yet in the list) carry its stick along variable `want`
// (LOOP_NO_DIM: one element a stick), through new local buffers where needed; a copy out (see
// above) becomes a restickify instead of a reader of one.
SPYRE_MUST_CHECK spyre_status restickify_operand(restickifier *r, loop_op *op, uint32_t operand,
                                                 uint8_t want);

// Makes restickify ops of the copies that cut sticks, now that all layouts are chosen.
void restickify_name_copies(loop_graph *loops);

// As restickify_operand, for the table of a gather, whose rows are a dim that no variable of the op
// moves along.
SPYRE_MUST_CHECK spyre_status restickify_table(restickifier *r, loop_op *op, uint8_t want);

// Copies what `operand` reaches when padding would lead behind the operand's buffer: another
// operand carries its stick of `lanes` elements along variable `padded`, so whole sticks of it are
// read.
SPYRE_MUST_CHECK spyre_status restickify_padded(restickifier *r, loop_op *op, uint32_t operand,
                                                uint8_t padded, int64_t lanes);

#endif
