// SPDX-License-Identifier: Apache-2.0
//
// The planner's solvers by themselves: buffers that live for a stretch of ops get places in one
// space of bytes, so that no two of them meet in time and place. What the compiler does with the LX
// of a core and with the pool in memory (docs/scratchpad.md), for tools and tests.
#ifndef SPYRE_SCRATCHPAD_H
#define SPYRE_SCRATCHPAD_H

#include <stdint.h>

#include "spyre/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPYRE_LIVE_BUFFER_PARENTS = 5, SPYRE_LIVE_BUFFER_MOST_OPS = 1 << 20 };

// The child of a parent may start where the parent starts, in the op in which the parent is read
// last, when the parent is at least as large. Of several children one does.
typedef struct {
    int64_t bytes;          // above 0
    uint32_t first, last;   // ops at whose position it lives, both included; below MOST_OPS
    int64_t worth;          // what is saved when it has a place: solvers that choose keep the most
    uint32_t parent_count, parents[SPYRE_LIVE_BUFFER_PARENTS];  // numbers of buffers
    int64_t address;        // result: a multiple of the alignment, or -1 without a place
} spyre_live_buffer;

// Sets the addresses. `solver` is a choice of the setting layout_solver; places end at `capacity`
// bytes. Deterministic. SPYRE_INVALID_ARGUMENT names buffer and rule.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_place_buffers(const char *solver, int64_t capacity,
                                                            int64_t alignment,
                                                            spyre_live_buffer *buffers,
                                                            uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
