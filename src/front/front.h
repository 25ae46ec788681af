// SPDX-License-Identifier: Apache-2.0
//
// The front-end compiler: from a card segment's graph to a bundle, through ordered passes over the
// loop IR (pass.def).
#ifndef FRONT_FRONT_H
#define FRONT_FRONT_H

#include "front/ir/loop.h"

typedef struct {
    spyre_settings settings;
    const char *plan;        // of the graph at another size, loop_graph.plan of it; or null
    text *dump;              // gets the IR after every pass that changed it, or null
    spyre_loops_pass *loop_pass; // of the caller, or null
    void *loop_context;
} front_options;

enum {
    FRONT_PASS_COUNT = 0
#define PASS_ROW(name, kind, summary) +1
#include "front/pass.def"
#undef PASS_ROW
};

// What one stage took and left: build, each pass that ran, the checks of invariants, emission.
typedef struct {
    const char *name; // static
    int64_t ns;       // processor time of the thread
    int64_t bytes;    // host memory, kept until the executable goes
    uint32_t ops, buffers;
    bool changed;
} pass_time;

typedef struct {
    uint32_t count;
    pass_time items[FRONT_PASS_COUNT + 3];
} pass_times;

// A stick among the constants, at byte `offset`, of the number `index` that a launch gives.
typedef struct {
    uint32_t index;
    spyre_scalar_form form;
    spyre_format format;
    int64_t offset;
} front_scalar;

// What the caller has to bind at launch, in the order of the bundle's arguments: the pool first
// when there is one, then the graph's inputs, the output buffers, the constants when there are
// some.
typedef struct {
    bundle *bundle;
    loop_graph *loops; // the final loop IR, for reports
    bool has_pool, has_constants;
    uint32_t input_count, output_buffer_count;
    uint32_t scalar_count;      // sticks of the constants that each launch fills
    const front_scalar *scalars;
    pass_times records;
} front_result;

// Compiles a graph whose nodes are all native or views and whose sizes are constant. Everything
// lives in `memory`. Errors name op, operand, rule and source line; *out_node is the node of the
// graph that was in work when one occurred (the caller may give it to the host and try again).
SPYRE_MUST_CHECK spyre_status front_compile(const spyre_graph *graph, const front_options *options,
                                            arena *memory, uint32_t *out_node,
                                            front_result *out_result);

// The same from a loop IR behind some of the passes, loop_parse()'s: the others follow. Only `dump`
// of the options counts, settings are the loop IR's. SPYRE_INVALID_FORMAT when it breaks an
// invariant, now or behind a pass.
SPYRE_MUST_CHECK spyre_status front_continue(loop_graph *loops, const front_options *options,
                                             front_result *out_result);

// SPYRE_INVALID_FORMAT in place of SPYRE_INTERNAL: an invariant that a loop IR which was read from
// text or data breaks is an error of that input.
SPYRE_MUST_CHECK spyre_status front_fault_of_input(spyre_status status);

// "build" for 0, else the name of the last of so many passes; static.
const char *front_stage_name(uint32_t stage);

// Gives a buffer the layout that an input comes with; SPYRE_UNSUPPORTED names the device dim that
// is no dim of the host tensor.
SPYRE_MUST_CHECK spyre_status front_take_layout(arena *memory, loop_buffer *buffer,
                                                const spyre_layout *layout);

// The device dims of a buffer in the order of its layout, the lanes of a stick last.
spyre_layout front_device_dims(const loop_buffer *buffer);

// The order of torch_spyre's default layout, fastest first: d0, tiles of the last dim, d(r-2) ..
// d1. For buffers of rank 1 and up whose dims are those of the host.
void front_set_default_order(loop_buffer *buffer);

// Whether an output buffer may leave the segment with its stick along the host dim of this stride:
// not where results have the default stick dim (setting default_results) and this is another.
bool front_may_leave(const loop_graph *loops, const loop_buffer *buffer, int64_t stride);

// True when one output alone is the buffer, dense and all of it, as *out_view.
bool front_leaves_as(const loop_graph *loops, uint32_t buffer, spyre_view *out_view);

// The layout of a buffer that leaves the segment, as the runtime's copies need it.
SPYRE_MUST_CHECK spyre_status front_buffer_layout(const loop_buffer *buffer,
                                                  spyre_layout *out_layout);

// The layout in which the final loop IR would have read an input without copying all of it first;
// of rank 0 where there is none that would do so.
SPYRE_MUST_CHECK spyre_status front_preferred_layout(const loop_graph *loops, uint32_t input,
                                                     spyre_layout *out_layout);

// The op of the final loop IR that a step, or its kernel, of this name does.
uint32_t front_op_of_step(const char *name);

// The stages before and after the passes. *out_node as of front_compile().
SPYRE_MUST_CHECK spyre_status front_build(const spyre_graph *graph, arena *memory,
                                          uint32_t *out_node, loop_graph **out_loops);
SPYRE_MUST_CHECK spyre_status front_emit(loop_graph *loops, front_result *out_result);

// Whether what each stage made is checked: settings.validate_graph_invariants; in debug builds
// always.
bool front_validates(const spyre_settings *settings);

// Checks the rows of invariant.def that hold after the passes which loops->stage counts.
// SPYRE_INTERNAL: "after pass lx_planning: I-18, <rule>: <buffer, op or operand>: <values>".
SPYRE_MUST_CHECK spyre_status loop_verify(const loop_graph *loops);

// The same for the rows that begin to hold with the last pass: enough behind one that changed
// nothing.
SPYRE_MUST_CHECK spyre_status loop_verify_begun(const loop_graph *loops);

// A pass: edits the loop IR and says whether it did.
typedef spyre_status (*front_pass)(loop_graph *loops, bool *out_changed);
#define PASS_ROW(name, kind, summary)                                                \
    SPYRE_MUST_CHECK spyre_status pass_##name(loop_graph *loops, bool *out_changed);
#include "front/pass.def"
#undef PASS_ROW

// The rows of pass.def.
typedef enum { FRONT_LOWER, FRONT_OPT, FRONT_PLAN } front_pass_kind;
typedef struct {
    const char *name;
    front_pass_kind kind;
    front_pass run;
} front_pass_row;
extern const front_pass_row front_passes[FRONT_PASS_COUNT];

// True when settings.skip_passes names the pass.
bool front_skips(const spyre_settings *settings, const char *pass);

// SPYRE_INVALID_ARGUMENT when the list names a pass that is unknown or needed for correctness.
SPYRE_MUST_CHECK spyre_status front_check_skips(const char *list);

#endif
