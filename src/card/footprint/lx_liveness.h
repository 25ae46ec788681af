// SPDX-License-Identifier: Apache-2.0
//
// LX liveness: the accesses of a kernel's instructions to LX in the order of its code, each with
// the bytes it touches over the loops around it.
//
// A read is exposed when no write earlier in its kernel's code surely fills it: it reads what was
// there before the kernel. What a kernel leaves in LX is live when an exposed read of any kernel
// overlaps it (ignoring the order of kernels errs on the safe side).
#ifndef CARD_LX_LIVENESS_H
#define CARD_LX_LIVENESS_H

#include "card/plan.h"

typedef struct {
    const isa_instruction *i;
    uint32_t at, operand;                   // instruction of the program
    uint32_t depth;
    uint32_t loop_id[ISA_MAX_LOOPS];        // which loops: the instruction that opens them
    uint32_t iterations[ISA_MAX_LOOPS];
    byte_range first;                       // in the first iteration
    bool reads, writes, dense;              // dense: a write of every byte
} lx_access;

typedef VEC(lx_access) lx_access_list;

// All accesses of a kernel's code, in its order. tiles[at] is null for instructions without one.
SPYRE_MUST_CHECK spyre_status lx_collect(arena *memory, const isa_program *program,
                                         plan_tile *const *tiles, const plan_kernel *kernel,
                                         lx_access_list *out);

// A kernel as others see it: the bytes it reads without having written them, those it may write,
// and some of those it surely overwrites.
typedef struct {
    uint32_t cores;                         // that run it
    byte_ranges exposed, written, replaced;
} lx_summary;
typedef VEC(lx_summary) lx_summaries;

SPYRE_MUST_CHECK spyre_status lx_summarise(arena *memory, const isa_program *program,
                                           plan_tile *const *tiles, const plan_kernel *kernel,
                                           lx_summary *out);

// True when a kernel behind the given one may read bytes of the range that none in between has
// overwritten on all of `cores`, bits of those that hold it.
bool lx_read_after(const lx_summaries *kernels, uint32_t kernel, uint32_t cores, byte_range range);

// True when bytes of the access, in any iteration, are read by a later kernel or launch.
bool lx_is_live(const lx_access *access, const byte_ranges *exposed);

// The loops that stand around both.
uint32_t lx_shared_loops(const lx_access *a, const lx_access *b);

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

#endif
