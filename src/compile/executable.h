// SPDX-License-Identifier: Apache-2.0
//
// What spyre_compile() makes: the segments of a graph, and for each card segment every stage's
// result, kept for launches, reports and artefacts.
#ifndef COMPILE_EXECUTABLE_H
#define COMPILE_EXECUTABLE_H

#include "front/front.h"
#include "graph/partition.h"
#include "isa/isa.h"
#include "runtime/job.h"
#include "spyre/counters.h"

typedef struct {
    spyre_segment info;
    spyre_graph *graph;                 // card segments only, from here on
    front_result front;
    isa_program *program;
    job *job;
    const spyre_kernel_counters *counters;  // of every kernel of the program
    text loop_dump;                     // the loop IR after every pass, when a dump was asked for
} executable_segment;

struct spyre_executable {
    arena *memory;
    spyre_graph *prepared;
    executable_segment *segments;
    uint32_t segment_count;
};


// Writes every stage's text of every card segment into `directory`: segment<n>.{graph,loop,listing}.
SPYRE_MUST_CHECK spyre_status executable_dump(const spyre_executable *executable,
                                              const char *directory);

#endif
