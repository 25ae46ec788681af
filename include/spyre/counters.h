// SPDX-License-Identifier: Apache-2.0
//
// What a launch uses on the card, kernel by kernel, and how long the card would take. It is found
// from the program by the timing model (docs/card.md): nothing is executed, and the numbers are the
// same for any data.
#ifndef SPYRE_COUNTERS_H
#define SPYRE_COUNTERS_H

#include "spyre/compile.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    SPYRE_BOUND_MEMORY,         // card memory
    SPYRE_BOUND_PT,             // matrix units
    SPYRE_BOUND_SFP,            // vector units
    SPYRE_BOUND_RING,           // between cores
    SPYRE_BOUND_ORDER,          // none of them half of the time: instructions wait for each other
} spyre_bound;

// "memory", "pt", "sfp", "ring", "order".
SPYRE_API const char *spyre_bound_name(spyre_bound bound);

// One kernel in one launch: sums over all cores and all its runs.
typedef struct {
    const char *name;           // "3_batchmatmul": number and opfunc
    const char *location;       // the user's source line, or ""
    uint32_t cores;
    int64_t runs;               // more than 1 in loops around kernels
    int64_t memory_read_bytes;  // a transfer that cores share counts once
    int64_t memory_written_bytes;
    int64_t lx_bytes;           // that instructions read and write in LX
    int64_t ring_bytes;         // of messages
    int64_t ring_hops;          // steps of messages from core to core
    int64_t mac_count;          // multiply-accumulates
    int64_t vector_element_count;
    double us;                  // estimated time that all runs add to the program's
    double overlap_us;          // time of all runs beside kernels that they do not depend on
    // Of `us` and `overlap_us` together: with the memory busy, and with a unit busy, on one core.
    // What is left is the time that the resource stands still.
    double memory_busy_us, pt_busy_us, sfp_busy_us, ring_busy_us;
    double stall_us;            // with neither PT nor SFP busy: a core waits for data
    spyre_bound bound;          // what the time is for
    bool estimated;             // `us` is only a lower bound: the walk found no steady state
} spyre_kernel_counters;

// Counters of the kernels of a card segment and, behind them, their sum (name "total", with the
// most cores of any): [spyre_segment.kernel_count + 1]. Null for other segments. Owned by the
// executable.
SPYRE_API const spyre_kernel_counters *spyre_executable_counters(
    const spyre_executable *executable, uint32_t segment);

// How a card segment uses the LX of a core, as the planner left it (the stage text "lx"). Bytes in
// use are those of buffers that live during an op, each byte once.
typedef struct {
    uint32_t ops, buffers;
    int64_t limit_bytes;        // that the planner may use
    int64_t peak_bytes;         // most in use during an op
    double average_bytes;       // over all ops
    double fragmentation;       // share of the free bytes outside of the largest gap, over all ops
    double reuse;               // bytes of all buffers over the peak: 1 when nothing is used
                                // twice, 0 without buffers
} spyre_lx_use;
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_lx_use(const spyre_executable *executable,
                                                                uint32_t segment,
                                                                spyre_lx_use *out_use);

#ifdef __cplusplus
}
#endif
#endif
