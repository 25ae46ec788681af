// SPDX-License-Identifier: Apache-2.0
//
// What a shuffle costs: slices of a buffer in LX go over the ring from the cores of its writer to
// those of the shuffle's own division.
//
//     us = max(bytes that the busiest core sends and receives / RING_WIDTH,
//              sum over messages of bytes * hops / (2 * CORES * RING_WIDTH)) / CLOCK
//
// A core's ring queue does one message after the other; and each of the ring's links, one a core
// and direction, carries what passes over it. The card's model has the same two terms
// (card/time/time_program.c).
#ifndef FRONT_COST_SHUFFLE_H
#define FRONT_COST_SHUFFLE_H

#include "front/ir/lx_slices.h"

enum { SHUFFLE_MOST_MESSAGES = 256 }; // of a core: what planners let a program be long for

// How the buffer that the shuffle reads is divided: as its writer divides it.
lx_slices shuffle_source(const loop_graph *loops, const loop_op *shuffle);

typedef struct {
    double us;
    int64_t messages; // that a core sends and receives
} shuffle_cost;

// `bytes`: of the whole buffer. No lengths are read.
shuffle_cost shuffle_cost_between(const lx_slices *from, const lx_slices *to, double bytes);
shuffle_cost shuffle_cost_of(const loop_graph *loops, const loop_op *shuffle, double bytes);

#endif
