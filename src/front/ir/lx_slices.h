// SPDX-License-Identifier: Apache-2.0
//
// Which core holds which slice of a buffer in LX, and which local buffers could live there, by the
// divisions of the ops that touch them.
//
// A buffer in LX is cut into equal slices along some of its dims, and every core holds one slice.
// That works when no access needs more than its own core's slice: all ops that touch the buffer
// divide its dims alike, into slices of the same length that belong to the same core numbers. An
// access may read less than the slice (a view, a piece) as long as it does so on every core alike.
#ifndef FRONT_LX_SLICES_H
#define FRONT_LX_SLICES_H

#include "front/ir/division.h"

typedef struct {
    const char *why;               // why the buffer cannot live in LX; null when it can
    int32_t slices[LOOP_MAX_DIMS]; // of every dim
    uint32_t reads;                // accesses that read it
} lx_fit;

// What the cores touch of a buffer through one access. Core c has slice c / core_stride % slices of
// a dim, `length` of its elements behind the one before; of a dim with one slice each has all.
typedef struct {
    const char *why; // it is not one slice a core; null when it is
    uint8_t cores;   // numbers below that have one; several may have the same
    uint8_t slices[LOOP_MAX_DIMS], core_stride[LOOP_MAX_DIMS]; // both 1 of a dim that is not cut
    int64_t length[LOOP_MAX_DIMS];                             // 0 of a dim that is not cut
} lx_slices;

// Where an op's loops walk the buffer of an operand, whatever their division. Where it is equal, so
// are the slices under equal divisions.
typedef struct {
    const char *why;                      // no division gives slices
    const char *why_uncut[LOOP_MAX_VARS]; // this loop's do not; null: they do
    uint8_t dim[LOOP_MAX_VARS];           // LOOP_NO_DIM: the loop does not move
} lx_walk;

lx_walk lx_walk_of(const loop_graph *loops, const loop_op *op, const division_sizes *sizes,
                   uint32_t k);

// Through operand k under a division; `walk` and `sizes` are the op's.
lx_slices lx_slices_under(const loop_graph *loops, const loop_op *op, const lx_walk *walk,
                          const division_sizes *sizes, const division *d, uint32_t k);

// Through operand k as the op is divided.
lx_slices lx_slices_of(const loop_graph *loops, const loop_op *op, uint32_t k);

// The same of the op's result; `why` also when it could not be in LX whoever reads it.
lx_slices lx_slices_written(const loop_graph *loops, const loop_op *op);

// Through an access to all of a buffer by one core.
lx_slices lx_slices_undivided(void);

// True when every core finds in its own slice of what was written all that it reads.
bool lx_slices_serves(const lx_slices *written, const lx_slices *read);

// Different slices that there are.
uint32_t lx_slices_count(const lx_slices *view);

// True when the slices make up the buffer, in whole sticks along the stick, and are equal; with
// `shorter` the last one may have less.
bool lx_slices_are_whole(const loop_buffer *b, const lx_slices *view, bool shorter);

// What the back-end leaves of each LX for buffers, in whole sticks.
int64_t lx_limit_bytes(const loop_graph *loops);

// One a buffer.
SPYRE_MUST_CHECK spyre_status lx_fits_find(const loop_graph *loops, lx_fit **out);

// True when operand k of the op reads every element where the op writes the result's, so that the
// result may take the operand's place in LX.
bool lx_in_place(const loop_graph *loops, const loop_op *op, uint32_t k);

#endif
