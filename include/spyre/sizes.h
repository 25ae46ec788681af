// SPDX-License-Identifier: Apache-2.0
//
// One program for all sizes of a dim. Two executables of a graph, in which the dim has its largest
// size and a smaller one, tell how every number of the program follows from the size, when that
// is all in which they differ; at every other size it is the same program, corrected.
#ifndef SPYRE_SIZES_H
#define SPYRE_SIZES_H

#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SPYRE_SIZES_SERVED,
    SPYRE_SIZES_OTHER_PLAN,     // the smaller size is planned otherwise: another one may not be
    SPYRE_SIZES_REFUSED,
} spyre_sizes_verdict;

// `largest` and `smaller` are of one graph and equal settings, but for a dim of `most` elements and
// of `size`, which both name as symbolic_size (with symbolic_granule = `granule`). Both are
// multiples of it, `size` below `most`. SPYRE_SIZES_SERVED: `largest` serves all multiples of the
// granule up to `most` from now on, and keeps `smaller`; otherwise *out_reason says why it does not
// in one line, which the caller frees. The program of every size is compiled by the back-end to
// compare it with what correction makes. Thread safe.
SPYRE_API SPYRE_MUST_CHECK spyre_status
spyre_executable_serve_sizes(spyre_executable *largest, spyre_executable *smaller, int64_t granule,
                             int64_t size, int64_t most, spyre_sizes_verdict *out_verdict,
                             char **out_reason);

// The executable at one of these sizes, which shares the memory of `largest` and keeps it; it is
// destroyed by spyre_executable_destroy(). SPYRE_INVALID_ARGUMENT for another size, or when
// `largest` serves none.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_at_size(spyre_executable *largest,
                                                                 int64_t size,
                                                                 spyre_executable **out_executable);

#ifdef __cplusplus
}
#endif
#endif
