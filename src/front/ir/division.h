// SPDX-License-Identifier: Apache-2.0
//
// How the loops of an op are divided over the cores: what a division may be, and how slices
// are counted; which core has which slice: core_numbers.h.
#ifndef FRONT_DIVISION_H
#define FRONT_DIVISION_H

#include "front/ir/loop.h"

// Slices of every variable; the rest of loop_op's division (core numbers) follows from an order.
typedef struct {
    int32_t split[LOOP_MAX_VARS];
    int32_t core_stride[LOOP_MAX_VARS];
} division;

// What divisions of an op are made from.
typedef struct {
    int64_t size[LOOP_MAX_VARS];  // extents with padding
    int64_t units[LOOP_MAX_VARS]; // that slices are made of; 1 for a loop that must stay whole
                                  // because its results could not be combined
    bool uneven[LOOP_MAX_VARS];   // the last slice may have fewer units than the others
} division_sizes;

division_sizes division_sizes_of(const loop_graph *loops, const loop_op *op);

// True when ops are divided one by one, as torch-spyre's planner does.
static inline bool division_is_published(const loop_graph *loops)
{
    return loops->settings.work_division == 1; // second choice of setting.def
}

division division_get(const loop_op *op);
void division_set(loop_op *op, const division *d, loop_division_origin origin);

// True when every core has the same slices under both.
bool division_equals(const loop_op *op, const division *a, const division *b);

// "c0/8 c2/4+" ("+" behind a reduced loop), "-" when nothing is divided; null when memory is short.
const char *division_describe(arena *memory, const loop_op *op, const division *d);

// One slice of everything.
division division_whole(void);

// Cores that the division uses.
int64_t division_cores(const loop_op *op, const division *d);

// True when the back-end can combine partial results of slices of v, a reduced variable.
bool division_combines(const loop_op *op, uint32_t v);

// True when slices of v, a reduced variable, give the same bits as the whole: the order of
// operations does not matter to max and min, except between the two zeros, which FOLD may tell.
bool division_combines_exactly(const loop_graph *loops, const loop_op *op, uint32_t v);

// True when `units` can be cut into so many slices: equal ones, or with `uneven` also such that all
// but the last are equal and the last has less.
bool division_cuts(int64_t units, int64_t slices, bool uneven);

// The number of slices next to `wanted` that `units` can be cut into, the smaller one of two.
int64_t division_nearest(int64_t units, int64_t wanted, bool uneven);

// The most slices up to `limit` that `units` can be cut into; at least 1.
int32_t division_largest(int64_t units, int64_t limit, bool uneven);

// Elements of a slice of loop v, of the longest one.
int64_t division_slice(const division_sizes *sizes, uint32_t v, int32_t split);

// The same as a part of the whole loop.
static inline double division_share(const division_sizes *sizes, uint32_t v, int32_t split)
{
    return (double)division_slice(sizes, v, split) / (double)sizes->size[v];
}

// True when the slices of loop v are not all equal.
bool division_is_uneven(const division_sizes *sizes, uint32_t v, int32_t split);

// True when some loop that moves the result is divided unevenly while a reduced loop is divided:
// cores that share results have equally many.
bool division_shares_uneven(const loop_op *op, const division_sizes *sizes, const division *d);

// The published default division, which keeps what is committed: see work_distribution.c.
division division_distribute(const loop_graph *loops, const loop_op *op,
                             const division_sizes *sizes, const division *committed);

#endif
