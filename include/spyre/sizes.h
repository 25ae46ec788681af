// SPDX-License-Identifier: Apache-2.0
//
// One program for all sizes of some dims. Executables of a graph, in which these have their largest
// sizes and smaller ones, tell how every number of the program follows from the sizes, when that is
// all in which they differ; at all other sizes it is the same program, corrected.
#ifndef SPYRE_SIZES_H
#define SPYRE_SIZES_H

#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_MOST_SIZES = 2 };      // dims whose sizes a program takes

typedef enum {
    SPYRE_SIZES_SERVED,
    SPYRE_SIZES_OTHER_PLAN,     // smaller sizes are planned otherwise: others, larger granules or
                                // divisions of parts (symbolic_parts) may not be
    SPYRE_SIZES_NEED_LEAST,     // with an executable of the least sizes there may be rules
    SPYRE_SIZES_REFUSED,
} spyre_sizes_verdict;

// The sizes of a dim: multiples of `granule` up to `most`, and a smaller one to compare with.
typedef struct {
    int64_t granule, size, most;
} spyre_size_span;

// `largest` has the `count` dims of `spans` at their largest sizes. smaller[k] is of the same graph
// and equal settings, but has dim k at its smaller size; where there are two dims, smaller[2] has
// both. One more, which may be left out, has a granule of each: without it only what is a multiple
// of a size, or of its square, follows from it, with it what such a multiple and a number add up
// to, too (n - 1). All name the sizes that they have as symbolic_size (and second_symbolic_size),
// with the granules; the smaller ones are compiled with the plan of `largest`
// (spyre_executable_plan()).
// SPYRE_SIZES_SERVED: `largest` serves all sizes of the spans from now on, and keeps the others;
// otherwise *out_reason says why it does not in one line, which the caller frees. The program of
// every combination is compiled by the back-end to compare it with what correction makes. Thread
// safe.
SPYRE_API SPYRE_MUST_CHECK spyre_status
spyre_executable_serve_sizes(spyre_executable *largest, spyre_executable *const *smaller,
                             uint32_t smaller_count, const spyre_size_span *spans,
                             uint32_t count, spyre_sizes_verdict *out_verdict, char **out_reason);

// The executable at some of these sizes, one a dim, which shares the memory of `largest` and keeps
// it; it is destroyed by spyre_executable_destroy(). SPYRE_INVALID_ARGUMENT for other sizes, or
// when `largest` serves none.
SPYRE_API SPYRE_MUST_CHECK spyre_status
spyre_executable_at_sizes(spyre_executable *largest, const int64_t *sizes, uint32_t count,
                          spyre_executable **out_executable);

#ifdef __cplusplus
}
#endif
#endif
