// SPDX-License-Identifier: Apache-2.0
//
// Numbers that follow from the sizes of dims. Internal to src/compile.
#ifndef COMPILE_SIZE_NUMBER_H
#define COMPILE_SIZE_NUMBER_H

#include "compile/sizes/size_rules.h"

// Of one dim. Numbers change from what they are at the largest sizes of all dims.
typedef struct {
    int64_t largest, next, granules;    // granules of the two sizes, and of the one that is made
    bool fits, sums;                    // sums: some number is no multiple of the dim
} size_proportion;

size_proportion size_proportion_of(const spyre_size_span *span, int64_t size);

// `*number`, which other dims may have scaled, is `most` at the largest size, and `next` at the
// smaller one.
void size_scale(size_proportion *p, int64_t *number, int64_t most, int64_t next);

// --- Constants in memory that follow from sizes: a count, one part in it, or as variances have
// it, the count over one less.

// The constants of `largest` that differ at the smaller sizes, or *out_why.
SPYRE_MUST_CHECK spyre_status size_constants_find(const size_rules *rules,
                                                  const executable_segment *largest,
                                                  const executable_segment *const *smaller,
                                                  size_segment *out, const char **out_why);

// The `length` bytes of the segment's constants at some sizes; `bytes` where none differ.
SPYRE_MUST_CHECK spyre_status size_constants_at(arena *memory, const size_rules *rules,
                                                const size_segment *segment, const int64_t *sizes,
                                                const uint8_t *bytes, int64_t length,
                                                const uint8_t **out_bytes);

#endif
