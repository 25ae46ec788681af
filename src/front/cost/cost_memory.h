// SPDX-License-Identifier: Apache-2.0
//
// What the way in which an op is divided does to the rate of memory, by the rules of the card's own
// model (docs/card.md, "Modelled time"): reads of cores that lie far apart are slower, and so are
// short runs of bytes.
#ifndef FRONT_COST_MEMORY_H
#define FRONT_COST_MEMORY_H

#include "front/ir/division.h"
#include "isa/time_formulas.h"

// How the operands of an op lie in memory.
typedef struct {
    bool placed[LOOP_MAX_OPERANDS]; // false: rows chosen by data, or no layout that expresses it
    uint8_t stick_var[LOOP_MAX_OPERANDS];
    int64_t span[LOOP_MAX_OPERANDS][LOOP_MAX_VARS];   // indices in one stick
    int64_t stride[LOOP_MAX_OPERANDS][LOOP_MAX_VARS]; // bytes of an index, of a stick for several
    uint8_t order[LOOP_MAX_VARS];   // loops by the result's strides, shortest first
} cost_layout;

cost_layout cost_layout_of(const loop_graph *loops, const loop_op *op);

// What the distance between the cores' slices of operand k adds to the time of reading it, as a
// share of that time.
double cost_spread(const loop_op *op, const cost_layout *layout, const division_sizes *sizes,
                   const division *d, uint32_t k);

// Bytes that the op finds side by side in operand k, up to LONG_RUN; tiles have `share_bytes` of
// LX; bit k of `resident`: operand k is in LX and takes no room in tiles.
typedef struct {
    double run_bytes[LOOP_MAX_OPERANDS];
} cost_runs;

cost_runs cost_runs_of(const loop_op *op, const cost_layout *layout, const division_sizes *sizes,
                       const division *d, double share_bytes, uint32_t resident);

// us that `bytes` of operand k take longer because its runs are short.
static inline double cost_short_runs_us(const cost_runs *runs, uint32_t k, double bytes)
{
    return isa_short_runs_us(bytes, runs->run_bytes[k]);
}

#endif
