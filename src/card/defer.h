// SPDX-License-Identifier: Apache-2.0
//
// Loads that are put off. A LOAD that fills one range of LX copies nothing at first: the core
// remembers that the range equals certain memory, and an instruction that reads inside the range
// may read memory instead: any instruction when the memory is one range too, a MATMUL also when the
// strides of its operands can be translated. The bytes are copied when something needs them in LX
// itself: another read, an instruction that changes the range in part, or the kernel's end when
// they are live there. A load that is overwritten first never costs anything. Fast mode only.
//
// Memory must not change meanwhile: a kernel defers nothing when a range that it stores to, on any
// core, meets one that it could defer.
#ifndef CARD_DEFER_H
#define CARD_DEFER_H

#include "card/card.h"
#include "card/plan.h"

enum { DEFER_MOST = 8, DEFER_LEAST_BYTES = 1024 };

typedef struct {
    const plan_tile *tile;              // of the LOAD
    int64_t low, high;                  // bytes of LX; element 0 lies at `low`
    uint8_t *source;                    // element 0 in memory; only read
} deferred_load;

typedef struct {
    deferred_load items[DEFER_MOST];
    uint32_t count;
} deferred_loads;

// A range of LX that an operand touches, and how.
typedef struct {
    int64_t low, high;
    bool reads, writes;
    bool dense;                         // writes every byte
    // A MATMUL's operand 1 or 2: element 0 at `low`, its dims as (bytes, indices); else 0 dims.
    uint32_t dim_count;
    int64_t stride[3], extent[3];
} lx_access;

// Makes LX ready for the accesses of one instruction: reads that can be taken from a deferred load
// stay deferred, everything else that the instruction meets is copied, or forgotten when it is
// overwritten whole.
void defer_prepare(deferred_loads *loads, uint8_t *lx, const lx_access *accesses, uint32_t count);

// Where to read LX byte `access->low` of a read that defer_prepare has seen, and the strides that
// take the place of access->stride there.
uint8_t *defer_locate(const deferred_loads *loads, uint8_t *lx, const lx_access *access,
                      int64_t *out_stride);

void defer_add(deferred_loads *loads, uint8_t *lx, deferred_load load);

// The end of a kernel: copies what is live (all of it with `keep_all`), forgets the rest.
void defer_finish(deferred_loads *loads, uint8_t *lx, bool keep_all);

// --- At load time (defer_plan.c)

// Sets dense, deferrable, flat and live of the tiles of a program; tiles[at] is null for
// instructions without one. Uses `scratch` memory.
SPYRE_MUST_CHECK spyre_status defer_plan(arena *scratch, const isa_program *program,
                                         plan_tile *const *tiles);

// The memory that a kernel's stores and deferrable loads touch, for defer_allowed.
SPYRE_MUST_CHECK spyre_status defer_plan_kernel(arena *memory, const isa_program *program,
                                                plan_tile *const *tiles, uint32_t begin,
                                                uint32_t end, const uint32_t *outer_iterations,
                                                plan_kernel *kernel);

// True when no store of the kernel can change what one of its deferrable loads reads.
bool defer_allowed(const plan_kernel *kernel, const card_argument *arguments);

#endif
