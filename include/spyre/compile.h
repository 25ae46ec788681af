// SPDX-License-Identifier: Apache-2.0
//
// From a graph to an executable: a list of segments that run in order. A card segment is one
// program of the card; a host segment is a run of nodes that the caller executes itself.
#ifndef SPYRE_COMPILE_H
#define SPYRE_COMPILE_H

#include "spyre/graph.h"
#include "spyre/loops.h"
#include "spyre/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    spyre_settings settings;
    const char *dump_dir;       // writes every stage's text there, or null
    bool host_fallback;         // false: a node without a card lowering is an error
    spyre_loops_pass *loop_pass;// called at every point of spyre/loops.h, or null; the cache then
    void *loop_context;         // neither gives nor keeps anything
    const char *plan;           // of the graph at other sizes, spyre_executable_plan()'s, or null
    bool cache;                 // take a known executable, keep a new one: see spyre/cache.h
} spyre_compile_options;

// Default settings, no dump, with host fallback: what spyre_compile() takes for null.
SPYRE_API spyre_compile_options spyre_compile_options_default(void);

typedef struct spyre_executable spyre_executable;

typedef enum { SPYRE_SEGMENT_CARD, SPYRE_SEGMENT_HOST } spyre_segment_kind;

// A result of a segment. Card segments write into `bytes` of card memory that the caller
// allocates, laid out by `layout`; `storage` is the dense host tensor the layout describes and
// type.view a view of it. Results with the same `buffer` share that memory; a result that only
// views one of the segment's inputs has input >= 0 (its index) and needs no memory.
typedef struct {
    uint32_t value;
    spyre_tensor_type type;
    spyre_view storage;
    spyre_layout layout;
    int64_t bytes;
    uint32_t buffer;
    int32_t input;
} spyre_segment_output;

typedef struct {
    spyre_segment_kind kind;
    const char *name;                       // card segments: "sdsc_fused_mul_add_0_1a2b3c4d"
    uint32_t node_count;                    // nodes of the caller's graph
    const uint32_t *nodes;
    uint32_t input_count;
    const uint32_t *inputs;                 // value ids
    // Card segments: how the storage of each input must lie on the card. A value that a host
    // segment made is expected as spyre_layout_dense() lays out a tensor of its sizes and strides.
    const spyre_view *input_storages;
    const spyre_layout *input_layouts;
    const spyre_dtype *input_dtypes;        // of the values; null for programs of OpSpecs
    // By input: the layout in which the program would not have to copy all of it before it is read
    // (a weight that a product reads transposed, say); of rank 0 where its own is as good. A caller
    // that launches it often on the same contents gains by moving the storage and compiling again.
    const spyre_layout *preferred_layouts;
    uint32_t output_count;
    const spyre_segment_output *outputs;
    uint32_t buffer_count;                  // distinct output buffers
    int64_t pool_bytes;                     // card memory for intermediates
    uint32_t scalar_count;                  // numbers that a launch gives (spyre_launch_scalars())
    // Work of one launch, counted from the program (card segments).
    uint32_t kernel_count;
    int64_t mac_count;                      // multiply-accumulates
    int64_t memory_bytes;                   // read and written
    double card_us;                         // modelled time
} spyre_segment;

// spyre_settings_check(), and that skip_passes names optional passes: what spyre_compile() checks.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_compile_check_settings(
    const spyre_settings *settings);

// Compiles; `graph` may be destroyed afterwards. Errors name node, operand, rule and source line.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_compile(const spyre_graph *graph,
                                                      const spyre_compile_options *options,
                                                      spyre_executable **out_executable);

// Compiles a card segment on from the text of its loop IR (docs/loop-text.md) into an executable of
// this one segment: the program that the segment's graph gives. `source` is what
// spyre_executable_text() gives as "loop", or one of the programs in segment<n>.passes of a dump:
// that after the pass `after`; null when there is one only. `file_name` is for messages. Settings
// are the text's. Inputs and outputs are named by their numbers. `dump_dir` as in
// spyre_compile_options. SPYRE_INVALID_FORMAT names line, column and rule, or the invariant that
// the text breaks.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_compile_loops(const char *source,
                                                            const char *file_name,
                                                            const char *after,
                                                            const char *dump_dir,
                                                            spyre_executable **out_executable);
SPYRE_API void spyre_executable_destroy(spyre_executable *executable);

// How the graph is divided over cores, and what stays in LX, as text for compiling it at smaller
// sizes (options.plan): where the plan fits there, it is taken, and programs are alike but for
// numbers. "" where no size was named as symbolic_size. The caller frees it.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_plan(const spyre_executable *executable,
                                                              char **out_text);

// Bytes of the host that it takes, with what its launches have put on cards. It grows with the
// first launch on a card.
SPYRE_API int64_t spyre_executable_bytes(spyre_executable *executable);

SPYRE_API uint32_t spyre_executable_segment_count(const spyre_executable *executable);

// What the process has counted about compiling and its cache since it started, one row a counter
// (src/compile/statistics.def) and then one a stage of the front; false behind the last. Thread
// safe; name and meaning are static.
typedef struct {
    const char *name;
    int64_t value;
    const char *meaning;
} spyre_statistic;
SPYRE_API bool spyre_statistic_at(uint32_t index, spyre_statistic *out_statistic);

// Owned by the executable.
SPYRE_API const spyre_segment *spyre_executable_segment(const spyre_executable *executable,
                                                        uint32_t index);

// What one stage of the front took for a card segment: build, every pass that ran, the checks of
// invariants, emission. `name` is static.
typedef struct {
    const char *name;
    double us;              // processor time of the compiling thread
    int64_t bytes;          // host memory that it keeps
    uint32_t ops, buffers;  // of the loop IR behind it
    bool changed;           // it did something
} spyre_stage_record;

// Record `index` of a card segment, in order; false behind the last one, for other segments, and
// for an executable that a cache had.
SPYRE_API bool spyre_executable_stage_record(const spyre_executable *executable, uint32_t segment,
                                             uint32_t index, spyre_stage_record *out_record);

// What became of a node of the caller's graph. Strings are owned by the executable.
typedef enum {
    SPYRE_NODE_NATIVE,                      // one native took it
    SPYRE_NODE_DECOMPOSITION,               // several
    SPYRE_NODE_VIEW,                        // no work
    SPYRE_NODE_HOST,                        // the caller executes it
    SPYRE_NODE_REMOVED,                     // nothing needs its results
} spyre_node_layer;

typedef struct {
    const char *op;                         // "aten.add.Tensor"
    const char *location;                   // the user's source line, or "unknown"
    spyre_node_layer layer;
    const char *reason;                     // of HOST the rule that keeps it from the card; of
                                            // others what took it, or null
    const char *beyond;                     // opfuncs that took it and that no real card has: "own
                                            // erf, extended batchmatmul of float32"; or null
    const char *composition;                // "aten.silu.default(%x)": the call that this node and
                                            // those before it spell out, as docs/graph-text.md
                                            // writes calls; null when they spell out none
} spyre_node_report;

// Node `index` of the caller's graph; false behind the last one.
SPYRE_API bool spyre_executable_node(const spyre_executable *executable, uint32_t index,
                                     spyre_node_report *out_report);

// One line a node: node, op, the layer that took it (native, decomposition, view, host), reason.
// The caller frees the string with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_report(const spyre_executable *executable,
                                                                char **out_text);

// Stage text of a card segment: "graph", "loop", "cost" (divisions and predicted times), "splits"
// (torch-spyre's op_it_space_splits), "why" (where the time goes and what would save some),
// "lx" (what lies in LX, op by op), "time" (of the passes of this compilation), "opspec"
// (spyre/op_spec.h), "bundle" (its steps), "listing" (program). Freed with spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_text(const spyre_executable *executable,
                                                              uint32_t segment, const char *stage,
                                                              char **out_text);

// What ranks exchange in the graph, a line a collective: its modelled time, how much of that the
// card's work between start and wait hides, bytes and ranks, `ranks` where the graph does not say
// how many (0: the cards of a host); then the sums. Empty without collectives. Freed with
// spyre_string_free().
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_exchanges(
    const spyre_executable *executable, uint32_t ranks, char **out_text);

// The loop IR of a card segment as the program was made of it, for spyre_loops_op() and
// spyre_loops_op_cost(); it lives as long as the executable.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_loops(const spyre_executable *executable,
                                                               uint32_t segment,
                                                               const spyre_loops **out_loops);

// Writes the LX of a core over time, a panel a card segment, as SVG into the file `path`.
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_draw_lx(const spyre_executable *executable,
                                                                 const char *path);

// Writes the boundary artefacts of a card segment into `directory` (made when missing):
// "bundle" (sdsc_<n>.json, bundle.mlir) or "spyrecode" (spyrecode.json, init.bin).
SPYRE_API SPYRE_MUST_CHECK spyre_status spyre_executable_write(const spyre_executable *executable,
                                                               uint32_t segment, const char *stage,
                                                               const char *directory);

#ifdef __cplusplus
}
#endif
#endif
