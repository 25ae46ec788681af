// SPDX-License-Identifier: Apache-2.0
//
// Which kernels cores may run one after another without meeting between them: nothing that one core
// writes in memory is touched by another core in a later kernel, nor the other way round (LX is a
// core's own). Found when a program is loaded, under the condition that its arguments lie apart.
#ifndef CARD_LOCAL_H
#define CARD_LOCAL_H

#include "card/card.h"
#include "card/fuse/lx_flow.h"

enum { LOCAL_MOST_LEVELS = ISA_MAX_DIMS + ISA_MAX_LOOPS };

// What every core touches in memory through one operand: runs of `bytes` bytes from base[core] on,
// repeated at strides, all of them longer than what they repeat, or overlapping it.
typedef struct {
    uint16_t arg;
    bool stores;
    uint32_t cores;                         // bit c: core c takes part
    int64_t base[ISA_CORES];
    int64_t low, high;                      // over all cores
    int64_t bytes;
    uint32_t levels;                        // by rising stride
    int64_t stride[LOCAL_MOST_LEVELS], extent[LOCAL_MOST_LEVELS];
    int64_t span[LOCAL_MOST_LEVELS + 1];    // bytes from first to last of the lower levels
} local_footprint;
typedef VEC(local_footprint) local_footprints;

// Adds the footprints of a kernel's code, a kernel without loops around it.
SPYRE_MUST_CHECK spyre_status local_collect(arena *memory, const isa_program *program,
                                            plan_tile *const *tiles, uint32_t begin, uint32_t end,
                                            const isa_kernel *kernel, local_footprints *out);

// True when one core of `a` and another of `b` touch the same byte and one of the two writes. Errs
// on the safe side.
bool local_conflict(const local_footprint *a, const local_footprint *b);

// True when no argument that the program stores to overlaps another one.
bool local_arguments_apart(const card_program *program, const card_argument *arguments);

#endif
