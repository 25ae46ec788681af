// SPDX-License-Identifier: Apache-2.0
//
// What lies in a core's LX while a segment runs, op by op: the stage text "lx". Internal to
// src/compile.
//
//     lx 2 buffers, at most 128 of 1677696 bytes a core, 4 ops
//     op 0 batchmatmul  // h, mlp.py:1
//     buffer b3 lx(0+128) ops(0..1)  // h
//     buffer b4 lx(0+128) ops(1..2) in place of b3  // g
#ifndef COMPILE_LX_STAGE_H
#define COMPILE_LX_STAGE_H

#include "front/ir/loop.h"
#include "spyre/counters.h"

// Lives from where op `first` writes it until op `last` has read it.
typedef struct {
    uint32_t id;
    const char *name;
    int64_t offset, bytes;  // in the LX of every core
    uint32_t first, last;   // ops
    uint32_t in_place_of;   // id of the buffer that it takes the place of, or SPYRE_NO_ID
} lx_buffer;

typedef struct {
    const char *opfunc, *name;  // name: graph value and source line
} lx_op;

typedef struct {
    int64_t limit_bytes;    // that the planner may use
    int64_t peak_bytes;     // end of the highest buffer
    VEC(lx_op) ops;
    VEC(lx_buffer) buffers;
} lx_map;

// The map of a planned segment. Strings are those of `loops` or lie in `memory`.
SPYRE_MUST_CHECK spyre_status lx_map_of(arena *memory, const loop_graph *loops, lx_map *out);

// Sums over time; see spyre/counters.h.
SPYRE_MUST_CHECK spyre_status lx_map_use(arena *memory, const lx_map *map, spyre_lx_use *out);

void lx_map_print(const lx_map *map, text *out);

// Reads what lx_map_print() wrote. SPYRE_INVALID_FORMAT: "<name>: line 3: .."; also for a buffer
// that leaves the limit, is empty or lives outside the ops, and for buffers that overlap.
SPYRE_MUST_CHECK spyre_status lx_map_parse(arena *memory, const char *name, const char *source,
                                           lx_map *out);

#endif
