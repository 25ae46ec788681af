// SPDX-License-Identifier: Apache-2.0
//
// The loop-level IR: every op is one opfunc over an iteration space of variables, and reaches its
// operands through affine accesses, so a view never copies when an access can express it.
//
// Two address spaces meet here. *Host* offsets count elements of the dense host tensor that a
// buffer stands for; accesses are written in them. *Device* bytes follow from the buffer's layout;
// the function loop_locate() translates an access from the one into the other, or says why it
// cannot.
#ifndef FRONT_LOOP_H
#define FRONT_LOOP_H

#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"
#include "bundle/model.h"
#include "graph/graph.h"
#include "spyre/loops.h"
#include "spyre/settings.h"
#include "tensor/opfunc.h"

enum { LOOP_MAX_VARS = 8, LOOP_MAX_DIMS = 10, LOOP_MAX_OPERANDS = 6, LOOP_NO_DIM = 0xFF };
enum { LOOP_MOST_SUMS = 4 }; // loops that a product sums over: a bundle has names for so many
enum { LOOP_ROWS = 0xFD }; // in the place of a variable: the rows of a table, which data walk
enum { LOOP_MAX_TILES = BUNDLE_MAX_LOOPS }; // counted loops around an op
#define LOOP_UNUSED UINT32_MAX

// A dim of a buffer in host elements. Only extents above 1 are kept.
typedef struct {
    int64_t extent, stride;
} loop_dim;

typedef enum { LOOP_INPUT, LOOP_CONSTANT, LOOP_LOCAL } loop_buffer_kind;

typedef struct {
    const char *name;
    loop_buffer_kind kind;
    uint32_t index; // INPUT: index among the graph's inputs
    uint32_t replaced_by; // INPUT: the output that is to replace its contents, plus one; 0: none
    double value;   // CONSTANT; of a scalar one like those that launches give
    uint32_t scalar; // CONSTANT: the number among a launch's scalars, plus one; 0: `value` is it
    spyre_scalar_form form;
    spyre_dtype dtype;
    spyre_format format;
    spyre_view storage; // the dense host tensor
    uint32_t dim_count;
    loop_dim dim[LOOP_MAX_DIMS]; // ascending stride; refinement splits them
    // Layout: the stick runs along dim `stick` (LOOP_NO_DIM: one element a stick, in lane 0); the
    // other dims and the stick dim's tiles lie in `order`, fastest first.
    bool has_layout;
    uint8_t stick;
    uint8_t order[LOOP_MAX_DIMS];
    const int64_t *fixed_size; // INPUT: what the given layout allocates in each dim (tiles for the
                               // stick dim), of LOOP_MAX_DIMS; null: as much as there is
    bool exx2;                         // two moments a stick, in lanes 0 and 1
    int32_t output;                    // index among the output buffers, or -1
    // Memory: byte offset in LX (in_lx), in the pool (LOCAL without output) or in the constants.
    bool in_lx; // every core holds a slice of it, at the same place of its LX; bytes are a slice's
    int32_t slices[LOOP_MAX_DIMS]; // in_lx: the number of slices of each dim
    const char *why_in_memory;     // LOCAL: what speaks against LX, or null
    int64_t bytes, memory_offset;
    uint32_t first_op, last_op; // live range, positions in the op order; LOOP_UNUSED without an op
    uint32_t tile_depth; // counted loops inside of which every iteration has the buffer for itself
    bool walked;         // some op walks it tile by tile
} loop_buffer;

// Numbers in the place of a constant's element:
//     first + sum over variables v of index[v] * step[v]
//           + sum over counted loops t of index[t] * tile_step[t]
// or, of signs, 1 where that is above 0, else 0; rounded to the buffer's format. The access itself
// stands still. Numbers are smaller than LOOP_MOST_COUNT, so that none has more than 32 bits.
typedef struct {
    bool signs;
    int32_t first;
    int32_t step[LOOP_MAX_VARS];
    int32_t tile_step[LOOP_MAX_TILES];
} loop_count;
#define LOOP_MOST_COUNT ((int64_t)1 << 30)

// Host offset of an element = offset + sum over variables v of index[v] * stride[v]
//                                    + sum over counted loops t of index[t] * tile_stride[t].
typedef struct {
    uint32_t buffer;
    uint32_t count; // the numbers in its place: number in loop_graph.counts plus one; 0: none
    int64_t offset;
    int64_t stride[LOOP_MAX_VARS];
    int64_t tile_stride[LOOP_MAX_TILES];
} loop_access;

// A counted loop around consecutive ops, each iteration of which works on one tile of a dim.
typedef struct {
    int64_t count;    // >= 2
    const char *name; // of the dim, for messages
    bool unrolled;    // the bundle will have steps for every iteration
    uint32_t first_op, last_op; // positions in the op order
} loop_tiles;

// What chose an op's division, for reports and for passes that may change it.
typedef enum {
    LOOP_UNDIVIDED,
    LOOP_DIVIDED_BY_SPAN,         // minimum that the span limit demands
    LOOP_DIVIDED_BY_MATMUL_COST,  // published cost model of matmuls
    LOOP_DIVIDED_BY_DISTRIBUTION, // published default
    LOOP_DIVIDED_BY_AGREEMENT,    // with its neighbours
    LOOP_DIVIDED_BY_HINT          // the user; stays
} loop_division_origin;

typedef struct {
    opfunc op;
    const char *name; // of the graph value that it computes
    uint32_t var_count;
    int64_t extent[LOOP_MAX_VARS]; // >= 2; outermost first
    uint16_t dim_name[LOOP_MAX_VARS]; // the user's name of a dim that the loop walks: number in
                                      // loop_graph.dim_names plus one; 0: none
    uint32_t tile_depth;              // counted loops around the op, outermost first
    uint32_t tiles[LOOP_MAX_TILES];   // numbers in loop_graph.tiles
    int32_t split[LOOP_MAX_VARS];  // cores along the variable (in sticks for a stick variable)
    int32_t core_stride[LOOP_MAX_VARS]; // core numbers from one slice of the variable to the next,
                                        // where split > 1
    loop_division_origin divided_by;
    bool inserted;                 // by the planner: it copies a whole buffer (plan/lx_copies.h)
    uint32_t operand_count;        // inputs, then the output
    loop_access operand[LOOP_MAX_OPERANDS];
    uint8_t table;                 // the operand whose rows operand 0, the index, chooses: 1 of a
                                   // gather, 2, the result, of a scatter; 0: none. No variable
                                   // moves along its rows, so a scatter's index counts as reduced.
    opfunc accumulator;            // of a scatter that joins what is there by it; else ADD
    uint8_t scanned;               // bits of the loops along which a SCAN runs, in their order
    int64_t row_stride, row_count; // host stride and count of the indexed dim
    float parameter[OPFUNC_MAX_PARAMETERS];
    uint8_t stick;        // the variable along the output's stick, or LOOP_NO_DIM
    uint8_t cut_sticks;   // bits of loops in which a user's tiles would cut sticks; 0 outside of
                          // propagate_layouts
    uint8_t wanted_stick; // of a user's pass: the variable plus one, LOOP_NO_DIM: sparse; 0: any
    const char *location; // user's source line
    const char *note;     // of a user's pass, or null
    uint32_t node;        // graph node
} loop_op;

typedef VEC(loop_op) loop_op_list;

typedef struct {
    uint32_t value; // graph value
    uint32_t buffer;
    spyre_view view; // of the buffer's storage
} loop_output;

typedef struct spyre_loops {
    arena *memory;
    arena *scratch;    // of the pass in work, freed behind it; null outside of passes
    const spyre_graph *graph;
    spyre_settings settings;
    uint32_t cores;
    VEC(loop_buffer) buffers;
    loop_op_list ops;
    VEC(loop_tiles) tiles;
    VEC(loop_output) outputs;
    VEC(loop_count) counts;       // an access that changes its numbers gets others
    VEC(const char *) dim_names;  // no two are equal
    uint32_t output_buffer_count;
    int64_t pool_bytes;
    const char *plan;  // text for the graph at other sizes (plan/plan_text.h), or null
    const char *handed_plan; // one of the graph at another size, or null
    bool follows;      // has taken it
    uint32_t stage;    // rows of pass.def that have had their turn
    uint32_t *at_node; // graph node in work, for blaming an error on a node
    const struct stick_choice *sticks; // how they were chosen (stick_search.h); null before that
    struct {           // the caller's passes (user_passes.c); run is null when there are none
        spyre_loops_pass *run;
        void *context;
        int point;
        bool *edited;  // null outside of a call
    } user;
    bool shrunk;       // sizes are not the graph's any more (shrink.h)
    bool explains;     // the passes' notes are read
    const char *notes; // of the pass in work: comment lines, or null
} loop_graph;

// Memory for what no later pass needs.
static inline arena *loop_scratch(const loop_graph *loops)
{
    return loops->scratch ? loops->scratch : loops->memory;
}

// The output operand of an op; loop_output_of() is for those who change it.
static inline const loop_access *loop_result(const loop_op *op)
{
    return &op->operand[op->operand_count - 1];
}

static inline loop_access *loop_output_of(loop_op *op)
{
    return &op->operand[op->operand_count - 1];
}

// The buffer that operand k lies in.
static inline const loop_buffer *loop_operand_buffer(const loop_graph *loops, const loop_op *op,
                                                     uint32_t k)
{
    return &loops->buffers.items[op->operand[k].buffer];
}

static inline bool loop_is_matmul(const loop_op *op)
{
    return opfunc_describe(op->op)->kind == OPFUNC_KIND_MATMUL;
}

// True for an op that copies element by element, from where its access says. What writes down
// numbers is none.
static inline bool loop_is_copy(const loop_op *op)
{
    return op->op == OPFUNC_IDENTITY && !op->table && op->operand_count == 2 &&
           !op->operand[0].count;
}

// True when an input of the op lies in the buffer.
static inline bool loop_reads(const loop_op *op, uint32_t buffer)
{
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        if (op->operand[k].buffer == buffer) return true;
    return false;
}

// True when both buffers have equal dims.
static inline bool loop_same_dims(const loop_buffer *a, const loop_buffer *b)
{
    return a->dim_count == b->dim_count &&
           memcmp(a->dim, b->dim, a->dim_count * sizeof a->dim[0]) == 0;
}

// True when both hold elements of one dtype in one format.
static inline bool loop_same_elements(const loop_buffer *a, const loop_buffer *b)
{
    return a->dtype == b->dtype && a->format == b->format;
}

// True for an intermediate that some op touches and that has its place in the pool.
static inline bool loop_in_pool(const loop_buffer *buffer)
{
    return buffer->kind == LOOP_LOCAL && buffer->output < 0 && !buffer->in_lx &&
           buffer->first_op != LOOP_UNUSED;
}

// The slice of a variable that a core owns; the cores in use are 0 .. loop_core_count() - 1.
static inline int32_t loop_core_slice(const loop_op *op, uint32_t var, uint32_t core)
{
    if (op->split[var] == 1) return 0;
    return (int32_t)core / op->core_stride[var] % op->split[var];
}

static inline uint32_t loop_core_count(const loop_op *op)
{
    uint32_t cores = 1;
    for (uint32_t v = 0; v < op->var_count; v++) cores *= (uint32_t)op->split[v];
    return cores;
}

// How often the counted loops around an op execute it.
static inline double loop_executions(const struct spyre_loops *loops, const loop_op *op)
{
    double executions = 1;
    for (uint32_t t = 0; t < op->tile_depth; t++)
        executions *= (double)loops->tiles.items[op->tiles[t]].count;
    return executions;
}

// Counted loops that both ops are inside of.
static inline uint32_t loop_shared_tiles(const loop_op *a, const loop_op *b)
{
    uint32_t shared = 0;
    while (shared < a->tile_depth && shared < b->tile_depth && a->tiles[shared] == b->tiles[shared])
        shared++;
    return shared;
}

// True when the operand's rows are chosen by data, not by a variable.
static inline bool loop_is_table(const loop_op *op, const loop_access *access)
{
    return op->table && access == &op->operand[op->table];
}

// "hint", "agreement", ..; static.
const char *loop_division_origin_name(loop_division_origin origin);

// True when some input moves along the variable and the output does not.
bool loop_var_is_reduced(const loop_op *op, uint32_t var);

// True for a RANK's variable whose index is the rank: the result moves along it, the operand does
// not.
bool loop_var_is_rank(const loop_op *op, uint32_t var);

// True for a loop along which a SCAN runs: its iterations follow each other.
static inline bool loop_var_is_scanned(const loop_op *op, uint32_t var)
{
    return op->scanned >> var & 1u;
}

// True when an input before operand k, itself an input, is the same access: x of x * x, whose tile
// the back-end loads once.
bool loop_repeats_input(const loop_op *op, uint32_t k);

// " gather", " scatter", " accumulate" or "".
const char *loop_table_word(const loop_op *op);

// True when every element of the result depends on one of each input, in its place.
bool loop_is_element_wise(const loop_op *op);

// An op of one input over all of a buffer of `shape`, a loop a dim, outermost first, undivided, its
// stick along that of `shape`; both operands move by the strides of `shape`, their buffers are the
// caller's. It has the place in the user's program that `near` has.
loop_op loop_over_dims(const loop_op *near, opfunc op, const loop_buffer *shape);

// Splits a variable into an outer one and, behind it, an inner one of extent `inner`, which divides
// it. There must be room for one more; a stick goes with the inner one.
SPYRE_MUST_CHECK spyre_status loop_split_var(loop_graph *loops, loop_op *op, uint32_t var,
                                             int64_t inner);

// Takes away a variable of one iteration.
SPYRE_MUST_CHECK spyre_status loop_remove_var(loop_graph *loops, loop_op *op, uint32_t gone);

// Leaves `count` iterations of a variable, from `first` on; one alone is no variable any more.
SPYRE_MUST_CHECK spyre_status loop_take_part(loop_graph *loops, loop_op *op, uint32_t var,
                                             int64_t first, int64_t count);

// The numbers in the place of the access's elements, or null.
static inline const loop_count *loop_count_of(const loop_graph *loops, const loop_access *access)
{
    return access->count ? &loops->counts.items[access->count - 1] : NULL;
}

// Gives the access these numbers, which are copied.
SPYRE_MUST_CHECK spyre_status loop_set_count(loop_graph *loops, loop_access *access,
                                             loop_count count);

// Elements of a stick of the buffer.
int64_t loop_lanes(const loop_buffer *buffer);

// The variable along which the access walks the buffer's stick lane by lane, or LOOP_NO_DIM; of an
// access that loop_locate() can express, its stick_var.
uint8_t loop_stick_var(const loop_op *op, const loop_access *access, const loop_buffer *buffer);

// False for an opfunc of bundles only: what it does to windows that reach beyond what they are of,
// to halves of bytes or to counted positions cannot be said here.
static inline bool loop_has_opfunc(opfunc op)
{
    if (opfunc_slides(op)) return op == OPFUNC_CONV2D || op == OPFUNC_DEPTHWISECONV2D;
    return !opfunc_makes_pairs(op) && op != OPFUNC_BATCHMATMULINT4 &&
           opfunc_describe(op)->kind != OPFUNC_KIND_MASK;
}

// The reduced variable that walks the taps of windows along v, in the same dim of operand 0;
// LOOP_NO_DIM when v walks no windows.
uint8_t loop_tap_of(const loop_op *op, const loop_buffer *buffer, uint32_t v);

// True when an access with that offset starts at index 0 of the dim in which a step of `stride`
// host elements moves.
bool loop_starts_dim(const loop_buffer *buffer, int64_t offset, int64_t stride);

// A new LOCAL buffer for a dense host tensor; id in *out.
SPYRE_MUST_CHECK spyre_status loop_add_local(loop_graph *loops, const char *name, spyre_dtype dtype,
                                             spyre_format format, const spyre_view *storage,
                                             uint32_t *out);

// A new LOCAL buffer for what `like` holds, with these dims, innermost first. Of more of them than
// a tensor may have it is UNSUPPORTED.
SPYRE_MUST_CHECK spyre_status loop_add_in_dims(loop_graph *loops, uint32_t like,
                                               const loop_dim *dims, uint32_t count, uint32_t *out);

// True when the dims have their elements one behind the other, without a gap.
bool loop_is_dense(const loop_buffer *buffer);

// A new constant buffer of one element.
SPYRE_MUST_CHECK spyre_status loop_add_constant(loop_graph *loops, const graph_number *number,
                                                spyre_dtype dtype, uint32_t *out);

// Ops that write the buffer, of those from `first` up to `end`.
uint32_t loop_count_writers(const loop_graph *loops, uint32_t buffer, uint32_t first, uint32_t end);

// Leaves out the ops that are gone; true when there are some.
bool loop_drop_ops(loop_graph *loops, const bool *gone);

// Makes the list, which may lie in scratch memory, the graph's ops.
SPYRE_MUST_CHECK spyre_status loop_take_ops(loop_graph *loops, const loop_op_list *ops);

// A copy with lists of its own, whose memory is `scratch`, for plans on trial.
SPYRE_MUST_CHECK spyre_status loop_copy(const loop_graph *loops, arena *scratch, loop_graph *out);

// Whether the caller gets the buffer, or a part of it.
bool loop_is_returned(const loop_graph *loops, uint32_t buffer);

// The input whose contents an output in that buffer is to replace, or LOOP_UNUSED.
uint32_t loop_replaced_input(const loop_graph *loops, uint32_t buffer);

// The dense host tensor that a buffer's dims alone describe, outermost first; of rank 0 when there
// are more than SPYRE_MAX_RANK of them.
spyre_view loop_plain_storage(const loop_buffer *buffer);

// Derives dims (ascending stride, extents above 1) from the storage view.
void loop_set_dims(loop_buffer *buffer);

// Gives a LOCAL buffer its layout: stick along `stick`, other dims by ascending host stride, tiles
// outermost, so that neighbouring host dims stay one run of sticks.
void loop_set_layout(loop_buffer *buffer, uint8_t stick);

// The stick along the innermost dim, sticks in the order of the host tensor.
void loop_line_up(loop_buffer *buffer);

// Gives the buffer a copy of its fixed sizes, or zeros, for the caller to change.
SPYRE_MUST_CHECK spyre_status loop_own_sizes(arena *memory, loop_buffer *buffer,
                                             int64_t **out_sizes);

// The total size alone.
int64_t loop_device_bytes(const loop_buffer *buffer);

// The index in every dim of the element at an offset; the rest, 0 unless it lies between elements.
int64_t loop_split_offset(const loop_buffer *buffer, int64_t offset,
                          int64_t out_index[LOOP_MAX_DIMS]);

// The dim in which a step of `stride` host elements moves: the one whose stride is the largest not
// above it. Needs a dim.
uint32_t loop_dim_at(const loop_buffer *buffer, int64_t stride);

// How many of `count` steps from index `first` on stay within the dim: all; or as many as an inner
// loop has when the loop is split where it leaves the dim; 0 when it cannot be split there.
int64_t loop_part_within(const loop_dim *dim, int64_t first, int64_t step, int64_t count);

// The first and the last index in each dim that the loops of the access reach; false when one steps
// from a dim into another, or those that walk the same dim leave it together.
bool loop_find_reach(const loop_buffer *buffer, const loop_op *op, const loop_access *access,
                     int64_t out_first[LOOP_MAX_DIMS], int64_t out_last[LOOP_MAX_DIMS]);

// The same without the indices.
bool loop_stays_in_dims(const loop_buffer *buffer, const loop_op *op, const loop_access *access);

// False when several loops walk one dim of the buffer in steps that do not divide it: no layout has
// dims for them. Of an access that stays in dims.
bool loop_walks_evenly(const loop_buffer *buffer, const loop_op *op, const loop_access *access);

// Sets first_op and last_op of every buffer and counted loop. What an iteration takes over from
// outside lives as long as the loop.
void loop_find_live_ranges(loop_graph *loops);

// Indices of dim d (tiles for the stick dim) that the buffer needs a place for, those of a core's
// slice when it is in LX; and that it has a place for, more where an input's layout says so.
int64_t loop_device_extent(const loop_buffer *buffer, uint32_t d);
int64_t loop_allocated_extent(const loop_buffer *buffer, uint32_t d);

// Byte stride of one step of every dim (of one tile for the stick dim) and the total size; of a
// core's slice when the buffer is in LX.
void loop_device_strides(const loop_buffer *buffer, int64_t out_strides[LOOP_MAX_DIMS],
                         int64_t *out_bytes);

// True for a copy whose elements stay as they are, which a restickify can do, too.
bool loop_is_move(const loop_graph *loops, const loop_op *op);

// The variables that walk the lanes of a stick: one, or several where a view cuts the stick, each
// of which walks a part of it.
typedef struct {
    uint32_t count;
    uint8_t var[LOOP_MAX_VARS];  // by ascending step
    int64_t step[LOOP_MAX_VARS]; // by variable: lanes; 0 for those that walk none
    int64_t span[LOOP_MAX_VARS]; // by variable: indices in one stick, 1 for those that walk none
} loop_stick_walk;

// How an access, an operand of the op, would walk the stick if it ran along dim `stick`
// (LOOP_NO_DIM: none does); null, or a static text why no step of a bundle can. Restickify ops
// alone may cut sticks, and the results of copies, which then become restickify ops; with the
// setting published_opfuncs nothing does, since no published bundle has that.
const char *loop_walk_stick(const loop_graph *loops, const loop_op *op, const loop_access *access,
                            uint8_t stick, loop_stick_walk *out);

// Whether the op walks the stick of an operand in parts.
bool loop_cuts_sticks(const loop_graph *loops, const loop_op *op);

// An access in device bytes.
typedef struct {
    int64_t offset;                // bytes from the buffer's start
    int64_t stride[LOOP_MAX_VARS]; // bytes a step; for variables that walk lanes: a stick
    int64_t tile_stride[LOOP_MAX_TILES]; // bytes an iteration
    int64_t row_stride;            // table: bytes from one row to the next, or from one stick of
                                   // rows to the next
    uint8_t stick_var;             // the variable that walks the lanes, of several the innermost;
                                   // LOOP_ROWS or LOOP_NO_DIM
    loop_stick_walk walk;
} loop_location;

// Strides of a table from its first row behind its last one: row_stride times so many steps.
int64_t loop_row_steps(const loop_graph *loops, const loop_op *op, const loop_location *table);

// Translates; null when the layout can express the access, else a static text why not ("crosses a
// stick", ...). Needs has_layout.
const char *loop_locate(const loop_graph *loops, const loop_op *op, const loop_access *access,
                        loop_location *out);

// "op 12 add (model.py:7)" in the arena, for messages.
const char *loop_op_place(const loop_graph *loops, uint32_t op);

// "op 12 add (model.py:7), operand 1 (b3 %x)".
const char *loop_access_place(const loop_graph *loops, uint32_t op, uint32_t operand);

// The text form, docs/loop-text.md.
void loop_print(const loop_graph *loops, text *out);

// Reads the text form: what prints as the same text, and compiles to the same program. `after`
// names the pass behind which the program stands, where the text has several; null: there is one.
// Errors are SPYRE_INVALID_FORMAT with "file:line:column: rule". All of it lives in `memory`; the
// graph has inputs, outputs and hints, its nodes do nothing.
SPYRE_MUST_CHECK spyre_status loop_parse(const char *source, const char *file_name,
                                         const char *after, arena *memory,
                                         loop_graph **out_loops);

// SPYRE_INTERNAL with the first line that differs, unless the text form reads back as itself.
SPYRE_MUST_CHECK spyre_status loop_check_text(const loop_graph *loops);

#endif
