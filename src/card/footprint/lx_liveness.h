// SPDX-License-Identifier: Apache-2.0
//
// LX liveness: what of LX kernels read from before them and what they leave there.
//
// A read is exposed when no write earlier in its kernel's code surely fills it: it reads what was
// there before the kernel. What a kernel leaves in LX is live when an exposed read of any kernel
// overlaps it (ignoring the order of kernels errs on the safe side).
#ifndef CARD_LX_LIVENESS_H
#define CARD_LX_LIVENESS_H

#include "card/footprint/lx_access.h"

// A kernel as others see it: the bytes it reads without having written them, those it may write,
// and some of those it surely overwrites.
typedef struct {
    uint32_t cores;                         // that run it
    lx_ranges exposed, replaced;
    byte_ranges written;
} lx_summary;
typedef VEC(lx_summary) lx_summaries;

// From the accesses of the kernel's code.
SPYRE_MUST_CHECK spyre_status lx_summarise(arena *memory, const lx_access_list *accesses,
                                           const plan_kernel *kernel, lx_summary *out);

// True when a kernel behind the given one may read bytes of the range that none in between has
// overwritten on all of `cores`, bits of those that hold it.
bool lx_read_after(const lx_summaries *kernels, uint32_t kernel, uint32_t cores, byte_range range);

// True when a kernel behind `last` may read bytes of the range as the kernel `writer` left them:
// what kernels in between read does not count.
bool lx_read_behind(const lx_summaries *kernels, uint32_t writer, uint32_t last, uint32_t cores,
                    byte_range range);

// True when a kernel behind the given one, which is in no loop, may read what the access leaves, in
// any iteration; also when that takes long to find out. In time that does not depend on how many
// kernels there are.
bool lx_is_read_soon(const lx_summaries *kernels, uint32_t kernel, const lx_access *access);

// True when a kernel may read bytes that no kernel from `first` on has overwritten before, on all
// of its cores.
bool lx_reads_before(const lx_summaries *kernels, uint32_t first, uint32_t kernel);

// True when bytes of the access, in any iteration, are read by a later kernel or launch.
bool lx_is_live(const lx_access *access, const lx_ranges *exposed);

#endif
