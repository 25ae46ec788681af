// SPDX-License-Identifier: Apache-2.0
//
// From a KTIR function to a program of the card. Compute tiles are cores, 32 at a time; what they
// compute of indices is evaluated here for all cores at once, as numbers that advance with loops,
// so loops become hardware loops, loads and stores tiles with an offset a core, and tensors parts
// of LX. A loop whose body is not affine in its induction variable is unrolled.
#ifndef KTIR_LOWER_H
#define KTIR_LOWER_H

#include "isa/isa.h"
#include "ktir/run.h"

enum { LOWER_COUNTED = 1 << 16 };

typedef struct {
    const ktir_function *function;
    uint32_t grid_rank;
    int64_t grid[KTIR_MOST_GRID];
    const ktir_argument *arguments;     // numbers; of memory the size, 0 unknown
    uint32_t placed_count;              // memory at constant addresses, behind the arguments
    const ktir_placed *placed;
} ktir_lowering;

// The program lives in `memory`; its argument k is the k-th parameter that is memory. When it has
// one more, that one holds the int32 numbers 0 .. LOWER_COUNTED - 1. What the card has no
// instruction for, or no room, is SPYRE_UNSUPPORTED with file, line, column and operation; a
// kernel that runs off a view is SPYRE_DEVICE_FAULT.
SPYRE_MUST_CHECK spyre_status ktir_lower(const ktir_module *m, const ktir_lowering *lowering,
                                         arena *memory, isa_program **out_program);

#endif
