// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions between cards: one definition for every algorithm and transport.
#ifndef COMM_COMBINE_H
#define COMM_COMBINE_H

#include <stddef.h>

#include "spyre/dtype.h"
#include "spyre/status.h"

typedef enum { COMM_SUM, COMM_AVG, COMM_MAX, COMM_MIN, COMM_PROD, COMM_REDUCTION_COUNT }
    comm_reduction;

// "sum"; "?" for a value outside the enumeration.
const char *comm_reduction_name(comm_reduction reduction);

// Combines `count` elements of `ranks` inputs, inputs[r] being rank r's, into `target`, which may
// be one of the inputs but must not overlap one otherwise.
//
// Element i is ((x0 op x1) op x2) .. in ascending rank. Floating formats are widened to fp32, every
// step is an fp32 operation, and the result is rounded to the format once; an average divides the
// fp32 sum by `ranks` before that. NaN wins in a maximum and in a minimum; of equal values the
// lower rank's stays. 16, 32 and 64-bit integers wrap around and have no average. An element
// depends on no other one, so any split of the elements gives the same bytes.
//
// INVALID_ARGUMENT: no rank, or a reduction outside the enumeration; UNSUPPORTED: any other format,
// or the average of an integer format. `target` is untouched then. Threads: no shared state.
SPYRE_MUST_CHECK spyre_status comm_combine(comm_reduction reduction, spyre_format format,
                                           const void *const *inputs, uint32_t ranks, size_t count,
                                           void *target);

#endif
