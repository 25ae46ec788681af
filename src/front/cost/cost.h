// SPDX-License-Identifier: Apache-2.0
//
// Predicted time of an op on the card, from the loop IR alone: the one cost model of the front's
// planners. Rates are those of isa/cost.def, which the card's own model reads too; every constant
// has its source there.
//
//     memory  = (read + written) / MEMORY_BANDWIDTH + min(read, written) * turn
//               bytes in whole sticks, each operand once however many cores read it (x of x * x
//               once, that of a matmul as often as its tiles need it: matmul_tile_reads.h);
//               operands in LX cost nothing; windows that overlap are read once a tile
//               (cost_windows.h); turn is MEMORY_TURNAROUND, or that of restickify and of
//               broadcasts or, if that is more than the turn, what reads of cores far apart lose
//               + runs * SHORT_RUN where less than LONG_RUN lies side by side (cost_memory.h)
//     compute = multiply-adds / (cores * MATMUL_RATE * fill), or
//               sticks of the largest operand / (cores * VECTOR_STICKS * CLOCK)
//     fill    = min(1, rows a core / MATMUL_FULL_ROWS) ^ MATMUL_FILL_POWER
//     ring    = hops * bytes of a core's partial result / (RING_WIDTH * CLOCK)
//     us      = max(memory, compute + ring) + min(memory, compute + ring) / tiles
//               the first tile is loaded before anything is computed; where memory binds, the store
//               of the tile before the last one takes its part of that
#ifndef FRONT_COST_H
#define FRONT_COST_H

#include "front/cost/cost_memory.h"
#include "front/cost/cost_windows.h"

typedef struct {
    double read_bytes, written_bytes;   // of memory
    double memory_us, compute_us, ring_us;
    double us;
} cost;

// What of an op does not depend on its division, found once.
typedef struct {
    division_sizes sizes;
    double share_bytes;                 // of LX that the back-end's tiles have
    double points;                      // of the iteration space, padding included
    double bytes[LOOP_MAX_OPERANDS];    // that the op touches, in whole sticks
    cost_layout layout;                 // how they lie in memory
    cost_windows windows;               // that a reduction reads
    double shuffle_us;                  // of a shuffle with both sides in LX (cost_shuffle.h)
} cost_basis;

cost_basis cost_basis_of(const loop_graph *loops, const loop_op *op);

// The cost of op under division d; bit k of `resident`: operand k is in LX.
cost cost_of(const loop_op *op, const cost_basis *basis, const division *d, uint32_t resident);

// Times that differ by rounding only are equal; then the one with less compute is less.
bool cost_is_less(const cost *a, const cost *b);

// The formula's terms for planners that know less than a division: bytes that operand k touches
// when its stick runs along variable `stick` (LOOP_NO_DIM: one element a stick), `memory`, and
// `compute` of an op other than a matmul whose largest operand has `bytes`.
double cost_operand_bytes(const loop_graph *loops, const loop_op *op, uint32_t k, uint8_t stick);
double cost_memory_us(const loop_op *op, double read_bytes, double written_bytes);
double cost_vector_us(double bytes, double cores);

// Bits of the operands that are in LX, and the cost of an op of the loop IR as it stands.
uint32_t cost_resident(const loop_graph *loops, const loop_op *op);
cost cost_as_planned(const loop_graph *loops, const loop_op *op);

// us of all ops, one after the other.
double cost_of_graph(const loop_graph *loops);

#endif
