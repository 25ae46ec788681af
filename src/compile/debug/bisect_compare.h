// SPDX-License-Identifier: Apache-2.0
//
// Where two results of one step differ. Internal to src/compile.
#ifndef COMPILE_BISECT_COMPARE_H
#define COMPILE_BISECT_COMPARE_H

#include "base/text.h"
#include "bundle/interpret.h"

// The memory of a bundle: its arguments, and 32 LX of BUNDLE_LX_BYTES one behind the other.
typedef struct {
    const bundle_buffer *buffers;
    const uint8_t *lx;
} bundle_memory;

// What differs on one core: elements of the output, by their indices in the whole iteration space.
typedef struct {
    uint32_t core;
    int64_t elements, different;
    int64_t first[BUNDLE_MAX_DIMS], last[BUNDLE_MAX_DIMS];  // of a box around what differs
    double largest;                                         // |found - wanted|; NaN counts as inf
    double wanted, found;                                   // at the first one
} core_difference;

typedef VEC(core_difference) core_differences;

// Compares the output of a verified step element by element, bit for bit. `out` gets an entry for
// each core on which something differs.
SPYRE_MUST_CHECK spyre_status bisect_compare(arena *memory, const bundle *b,
                                             const bundle_step *step, const bundle_memory *wanted,
                                             const bundle_memory *found, core_differences *out);

// A line for each core: how many, where, by how much.
void bisect_print(const bundle_step *step, const core_differences *differences, text *out);

#endif
