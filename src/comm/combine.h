// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions between cards: one definition for every algorithm and transport.
#ifndef COMM_COMBINE_H
#define COMM_COMBINE_H

#include "spyre/comm.h"

// UNSUPPORTED: a format that has no such reduction; INVALID_ARGUMENT: outside the enumeration.
SPYRE_MUST_CHECK spyre_status comm_combine_check(spyre_reduction reduction, spyre_format format);

// Combines `count` elements of `ranks` (at least one) inputs, inputs[r] being rank r's, as
// spyre/comm.h defines it, into `target`, which may be one of the inputs but must not overlap one
// otherwise. Of equal values in a maximum or minimum the lower rank's stays. An element depends on
// no other one, so any split of the elements gives the same bytes. The pair has been checked.
void comm_combine(spyre_reduction reduction, spyre_format format, const void *const *inputs,
                  uint32_t ranks, size_t count, void *target);

// The same, one rank at a time. A partial result of the lower ranks has elements of this format:
// fp32 of floating ones, else the format itself.
spyre_format comm_partial_format(spyre_format format);

// The partial result of one more rank, whose elements `input` has; `partial` is that of the ranks
// below it, null for rank 0. `target` may be `partial`.
void comm_combine_next(spyre_reduction reduction, spyre_format format, const void *partial,
                       const void *input, size_t count, void *target);

// The result of all ranks' partial one, rounded to the format. `target` may be `partial`.
void comm_combine_finish(spyre_reduction reduction, spyre_format format, const void *partial,
                         uint32_t ranks, size_t count, void *target);

#endif
