// SPDX-License-Identifier: Apache-2.0
//
// What spyre_compile() makes: the segments of a graph, and for each card segment every stage's
// result, kept for launches, reports and artefacts. One that was read from a file has what launches
// and reports need; the stages are made again on request.
#ifndef COMPILE_EXECUTABLE_H
#define COMPILE_EXECUTABLE_H

#include <pthread.h>

#include "compile/cache/cache_disk.h"
#include "front/front.h"
#include "graph/segments/segments.h"
#include "isa/isa.h"
#include "runtime/job.h"
#include "spyre/counters.h"
#include "spyre/sizes.h"

typedef struct {
    spyre_segment info;
    isa_program *program;               // card segments only, from here on
    uint32_t argument_count;            // of the program
    const job_argument *arguments;
    const char *plan;                   // loop_graph.plan; "" or null: none
    uint32_t scalar_count;              // sticks of its constants that each launch fills
    const job_scalar *scalars;
    job *job;
    const spyre_kernel_counters *counters;  // of every kernel of the program
    spyre_graph *graph;                 // null from here on when the executable was read
    front_result front;
    text loop_dump;                     // the loop IR after every pass, when a dump was asked for
} executable_segment;

struct spyre_executable {
    arena *memory;
    executable_segment *segments;
    uint32_t segment_count;
    spyre_graph *prepared;              // null when it was read: then it has `fates`
    const graph_fate *fates;            // of the nodes of the caller's graph
    uint32_t fate_count;
    const char *subject;                // of an executable that the cache knows: options, then the
    const char *source;                 // graph's text, which starts at `source`
    spyre_compile_options options;
    pthread_mutex_t lock;               // guards `stages` and, once it is shared, `memory`
    spyre_executable *stages;           // of one that was read: compiled on demand
    struct size_rules *sizes;           // of one that serves several sizes (size_rules.h), or null
    spyre_executable *base;             // of one at a size: whose memory it shares
    int64_t at_sizes[SPYRE_MOST_SIZES]; // the sizes
    spyre_status (*make_stages)(const spyre_executable *e, spyre_executable **out_stages);
                                        // of one at a size; null: from `source`
    // Of cache_table.c, under its lock.
    uint32_t references;
    content_key key;
    spyre_executable *next;
};

// An executable without segments that the caller alone holds; null when memory is short.
spyre_executable *executable_create(void);

// Compiles whatever a cache knows.
SPYRE_MUST_CHECK spyre_status executable_compile(const spyre_graph *graph,
                                                 const spyre_compile_options *options,
                                                 spyre_executable **out_executable);

// What became of the nodes of the caller's graph.
const graph_fate *executable_fates(const spyre_executable *executable, uint32_t *out_count);

// Makes the one card segment of an executable without a graph of the caller, from a loop IR whose
// reader made the graph; settings are the loop IR's.
SPYRE_MUST_CHECK spyre_status executable_add_segment(spyre_executable *executable,
                                                     const loop_graph *loops,
                                                     executable_segment **out_segment);

// Says how the storages of the inputs of segment `from` lie on the card.
SPYRE_MUST_CHECK spyre_status executable_describe_inputs(spyre_executable *executable,
                                                         uint32_t segment,
                                                         const graph_segment *from);

// Says what outputs segment `from` has and where they lie, from the final loop IR.
SPYRE_MUST_CHECK spyre_status executable_describe_outputs(spyre_executable *executable,
                                                          uint32_t segment,
                                                          const graph_segment *from);

// Says which other layouts of its inputs the segment would have read without a copy, from the final
// loop IR.
SPYRE_MUST_CHECK spyre_status executable_describe_preferences(spyre_executable *executable,
                                                              uint32_t segment);

// From a card segment's bundle to its job. *out_step is the step of the bundle that was in work
// when an error occurred, or SPYRE_NO_ID.
SPYRE_MUST_CHECK spyre_status executable_finish_segment(spyre_executable *executable,
                                                        uint32_t segment,
                                                        const spyre_settings *settings,
                                                        uint32_t *out_step);

// Binds the program's arguments to what the front's result says, in the order of the bundle.
SPYRE_MUST_CHECK spyre_status executable_bind_arguments(spyre_executable *executable,
                                                        uint32_t segment);

// Makes the job of a card segment from its program and arguments, and counts its work.
SPYRE_MUST_CHECK spyre_status executable_make_job(spyre_executable *executable, uint32_t segment);

// A segment that must be one of the card's: SPYRE_INVALID_ARGUMENT otherwise.
SPYRE_MUST_CHECK spyre_status executable_card_segment(const spyre_executable *executable,
                                                      uint32_t index,
                                                      const executable_segment **out_segment);

// The executable that has the stages of this one: itself, or its graph compiled again.
SPYRE_MUST_CHECK spyre_status executable_with_stages(const spyre_executable *executable,
                                                     const spyre_executable **out_staged);

// The card segment with its stages; *executable becomes the one that has them.
SPYRE_MUST_CHECK spyre_status executable_staged_segment(const spyre_executable **executable,
                                                        uint32_t index,
                                                        const executable_segment **out_segment);

// Writes every stage's text of every card segment into `directory`: segment<n>.<stage>.
SPYRE_MUST_CHECK spyre_status executable_dump(const spyre_executable *executable,
                                              const char *directory);

#endif
