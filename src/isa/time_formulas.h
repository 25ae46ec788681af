// SPDX-License-Identifier: Apache-2.0
//
// The formulas that constants of cost.def stand in: the front's and the back-end's predictions and
// the card's model of time are of the same ones.
#ifndef ISA_TIME_FORMULAS_H
#define ISA_TIME_FORMULAS_H

#include <math.h>

#include "isa/constants.h"

// Bytes of an operand in the largest tile that the back-end makes, so that load, compute and store
// have something to overlap; the front reckons with it.
enum { ISA_TILE_BYTES = 64 << 10 };

// Multiply-adds a core makes in a us when `rows` pass the array.
static inline double isa_matmul_rate(double rows)
{
    return MATMUL_RATE * pow(fmin(1, rows / MATMUL_FULL_ROWS), MATMUL_FILL_POWER);
}

// us in which the SFUs of a core take `sticks`.
static inline double isa_vector_us(double sticks)
{
    return sticks / (VECTOR_STICKS * CLOCK);
}

// us more for `bytes` of memory in runs of `run_bytes` that lie side by side.
static inline double isa_short_runs_us(double bytes, double run_bytes)
{
    return run_bytes < LONG_RUN ? bytes / run_bytes * SHORT_RUN : 0;
}

// How much longer a read takes, as a share of its time, when neighbouring cores read `distance`
// bytes apart.
static inline double isa_spread(double distance)
{
    double rate = SPREAD_BANDWIDTH + SPREAD_AMPLITUDE * exp(-distance / SPREAD_DISTANCE);
    return fmax(0, MEMORY_BANDWIDTH / rate - 1);
}

#endif
