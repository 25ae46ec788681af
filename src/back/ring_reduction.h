// SPDX-License-Identifier: Apache-2.0
//
// Cores whose slices differ in reduced dims only hold partial results of one output. They form a
// chain in ascending order of those slices: the first sends its partial result, each of the others
// combines what it receives with its own (received first) and sends it on, the last one has the
// result. When the output is in LX every core of the chain needs it, and the result goes back the
// same way. A core's part in the chain is its kernel's, since all cores of a kernel run one code.
// Internal.
#ifndef BACK_RING_REDUCTION_H
#define BACK_RING_REDUCTION_H

#include "back/emit.h"

enum { RING_SLOTS = 2, RING_MOST_PARTS = 2 };

typedef struct {
    bool needed;                            // chains of more than one core
    uint32_t first, middle, last;           // cores by their place in the chain
    uint16_t previous_slot, next_slot;      // parameters with the neighbours
} ring_reduction;

// Fills the two parameter slots that nest_build() left free. SPYRE_UNSUPPORTED when cores have
// results of different extents: all of a kernel pass on the same tiles.
SPYRE_MUST_CHECK spyre_status ring_reduction_build(nest *n, ring_reduction *out);

typedef spyre_status ring_reduction_finish(void *context, const box *b);

// One result element per point of `axes` and part, in the accumulators.
typedef struct {
    emitter *e;
    const nest *n;
    ring_reduction chain;
    opfunc combine;                         // element-wise: ADD, MAXIMUM, MINIMUM
    bool everyone;                          // all cores of a chain need the result
    ring_reduction_finish *finish;          // rounds and stores; emitted inside the kernel
    void *context;
} ring_reduction_plan;

// The kernels after those that left the partial results in accumulator[0..parts).
SPYRE_MUST_CHECK spyre_status ring_reduction_emit(const ring_reduction_plan *plan, const box *b,
                                                  const place_axes *axes,
                                                  const place *accumulator,
                                                  const place *received, uint32_t parts);

#endif
