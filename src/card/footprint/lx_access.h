// SPDX-License-Identifier: Apache-2.0
//
// The accesses of a kernel's instructions to LX in the order of its code, each with the bytes it
// touches over the loops around it.
#ifndef CARD_LX_ACCESS_H
#define CARD_LX_ACCESS_H

#include "card/plan.h"

// Bytes of LX: those of a range that lie, in their sticks, among the lanes.
typedef struct {
    byte_range bytes, lanes;
} lx_range;
typedef VEC(lx_range) lx_ranges;

#define LX_WHOLE_STICKS ((byte_range){0, SPYRE_STICK_BYTES})

static inline bool lx_ranges_meet(lx_range a, lx_range b)
{
    return ranges_overlap(a.bytes, b.bytes) && ranges_overlap(a.lanes, b.lanes);
}

typedef struct {
    const isa_instruction *i;
    uint32_t at, operand;                   // instruction of the program
    uint32_t depth;
    uint32_t loop_id[ISA_MAX_LOOPS];        // which loops: the instruction that opens them
    uint32_t iterations[ISA_MAX_LOOPS];
    byte_range first;                       // in the first iteration
    byte_range lanes;                       // of sticks, in all iterations: bytes it may touch
    bool reads, writes;
    bool dense;                             // a write of every byte,
    bool fills_lanes;                       // of every byte of the lanes
} lx_access;

typedef VEC(lx_access) lx_access_list;

// All accesses of a kernel's code, in its order. tiles[at] is null for instructions without one.
SPYRE_MUST_CHECK spyre_status lx_collect(arena *memory, const isa_program *program,
                                         plan_tile *const *tiles, const plan_kernel *kernel,
                                         lx_access_list *out);

// The loops that stand around both.
uint32_t lx_shared_loops(const lx_access *a, const lx_access *b);

// Bytes from one iteration of a loop to the next.
int64_t lx_loop_stride(const lx_access *a, uint32_t loop);

// The range over all iterations of the loops from `first` on.
byte_range lx_over_loops(const lx_access *a, uint32_t first);

// The first `loops` loops, which both share, move both by the same bytes.
bool lx_move_alike(const lx_access *a, const lx_access *b, uint32_t loops);

// Every iteration of the read finds the bytes that the write left in the same iteration of the
// loops they share; of its own loops the write counts with the first iteration only.
bool lx_covers(const lx_access *write, const lx_access *read);

// As lx_covers, for a write with holes: the read lies in its range.
bool lx_spans(const lx_access *write, const lx_access *read);

// False when the two never touch the same byte in one iteration of the first `loops` shared loops.
bool lx_overlap(const lx_access *a, const lx_access *b, uint32_t loops);

// An operand's elements as dims of its own, extents and strides in bytes; of a MATMUL, operands 1
// and 2 only, three: [0] operand 1's rows or operand 2's sticks, [1] along k, [2] elements.
uint32_t lx_list_dims(const isa_instruction *i, uint32_t operand, int64_t *out_extent,
                      int64_t *out_stride);

// The same around runs of bytes without gaps.
uint32_t lx_list_runs(const lx_access *a, int64_t *extent, int64_t *stride, int64_t *run);

#endif
