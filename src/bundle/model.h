// SPDX-License-Identifier: Apache-2.0
//
// In-memory model of a SuperDSC bundle (specification 0248 in torch-spyre/interface-specs): an
// ordered list of steps, each one opfunc over an iteration space split over cores. Both front-ends
// (ours, torch-spyre's) meet here; the back-end and the interpreter read nothing else.
#ifndef BUNDLE_MODEL_H
#define BUNDLE_MODEL_H

#include "base/arena.h"
#include "base/vec.h"
#include "spyre/layout.h"
#include "tensor/opfunc.h"

enum {
    BUNDLE_MAX_DIMS = 10,
    BUNDLE_MAX_TENSORS = 8,
    BUNDLE_MAX_CORES = 32,
    BUNDLE_MAX_LOOPS = 4,
    BUNDLE_MAX_SYMBOLS = 4,
    BUNDLE_MAX_DIGITS = 4,
    BUNDLE_MAX_WINDOWS = 3,
    BUNDLE_MAX_CONSTANTS = 4,
};
#define BUNDLE_SEGMENT_BYTES 0x400000000ULL     // 16 GiB: segment k holds launch argument k

// What a launch argument is for. Bundles of other front-ends have ARGUMENT and POOL only.
typedef enum {
    BUNDLE_ARG_TENSOR,          // bound at launch
    BUNDLE_ARG_POOL,            // scratch memory of the bundle; in files bound at launch as
                                // argument 0, or the last, of known size (device_mem_allocate)
    BUNDLE_ARG_CONSTANTS,       // bytes in bundle.constants, loaded once
} bundle_arg_kind;

typedef struct {
    bundle_arg_kind kind;
    int64_t bytes;              // size that accesses must stay inside; 0: unknown (gathers ask)
} bundle_arg;

// Which core has which slices of a step's dims, or of those of a tensor in LX.
typedef struct {
    uint32_t core_count;
    int32_t slices[BUNDLE_MAX_DIMS];
    int64_t slice_size[BUNDLE_MAX_DIMS];    // uneven division: elements of every slice but the
                                            // last, which has fewer; else 0
    uint8_t core_slice[BUNDLE_MAX_CORES][BUNDLE_MAX_DIMS];
} bundle_division;

typedef enum { BUNDLE_INDEX_NONE, BUNDLE_INDEX_INDEX, BUNDLE_INDEX_VALUE } bundle_index_kind;

// A stick of several dims counts their elements in digits: `size` indices of `dim`.
typedef struct {
    uint8_t dim;
    uint16_t size;
} bundle_digit;

// Numbers in the place of a tensor's elements: at index i of the whole iteration space, in rounds l
// of the loops around the step,
//     first + sum over dims d of i[d] * step[d] + sum over loops n of l[n] * loop_step[n]
// or, of signs, 1 where that is above 0, else 0; then rounded to the tensor's format. All of them
// are of 32 bits. What lies at the tensor's address, one element, is not read.
typedef struct {
    int64_t first;
    int64_t step[BUNDLE_MAX_DIMS];
    int64_t loop_step[BUNDLE_MAX_LOOPS];
    bool signs;
} bundle_count;

// One tensor of a step (labeledDs_ + allocate node + its primaryDsInfo_), arrays by dim number.
typedef struct {
    char name[16];                          // "Tensor0"
    char label[16];                         // dsType_: "OUTPUT", "INPUT", "KERNEL", "KERNEL_IDX"
    spyre_format format;
    uint32_t element_bytes;                 // wordLength; 0 of SENINT4
    bool in_lx;
    uint32_t order_count;                   // layoutDimOrder_, fastest first
    uint8_t order[BUNDLE_MAX_DIMS];
    uint32_t label_order_count;             // order of the shared layout (primaryDsInfo_)
    uint8_t label_order[BUNDLE_MAX_DIMS];
    uint8_t stick_dim;                      // of a stick of several dims the one with most of it
    uint32_t stick_elements;
    uint32_t digit_count;                   // stickDimOrder_, stickSize_, fastest first; 0: the
    bundle_digit digits[BUNDLE_MAX_DIGITS]; // stick is stick_dim's alone
    int8_t scale[BUNDLE_MAX_DIMS];          // 1 normal, -1 absent, -2 absent stick dim (lane 0);
                                            // 0 for a dim outside the layout
    int32_t max_size[BUNDLE_MAX_DIMS];      // maxDimSizes_: -1 or the page size
    int64_t gap[BUNDLE_MAX_DIMS];           // backGapCore_, elements; sign as in the file
    uint8_t gap_symbol[BUNDLE_MAX_DIMS];    // symbol number + 1: the gap is that of the symbol's
    int64_t *gap_step;                      // most, less by gap_step[d] for each granule; 0: a
                                            // number. Null where all are
    bool gap_is_room[BUNDLE_MAX_DIMS];      // of ReStickifyOpHBM: room beyond N_, as of all others
    bundle_index_kind index_kind;
    int32_t index_peer;                     // the related tensor, or -1
    const bundle_count *count;              // countedFrom_; null: its elements are in memory
    const bundle_division *owners;          // the input of a shuffle; null: as the step is divided
    int64_t indexed_extent;                 // INDEX_VALUE: extent of the indexed dim; 0: from the
                                            // size of the launch argument
    // Core c finds its first element bundle_start(tensor, c) bytes behind the base of launch
    // argument `arg` (of LX when arg < 0), plus loop index times loop_stride for every enclosing
    // loop (0 is the outermost). bundle_set_starts() sets both fields.
    int32_t arg;
    int64_t loop_stride[BUNDLE_MAX_LOOPS];
    int64_t start;                          // of core 0
    const int64_t *core_offset;             // from there, by core; null: all cores start there.
} bundle_tensor;                            // Tensors may share it

static inline int64_t bundle_start(const bundle_tensor *tensor, uint32_t core)
{
    return tensor->start + (tensor->core_offset ? tensor->core_offset[core] : 0);
}

typedef struct {
    char name[24];
    spyre_format format;
    uint32_t bits;
} bundle_constant;

typedef struct {
    uint8_t dim;
    int64_t start, length;      // elements of the whole iteration space
} bundle_mask;

// paddingSizes_: along `dim` input 0 has the places of a window. Index i of dim and k of the kernel
// dim read index i * stride + k * dilation - front of it, of total - front - back; what lies
// outside is left out.
typedef struct {
    uint8_t dim, kernel;
    int64_t stride, dilation, front, back;
    int64_t total;              // with front and back; what no window reaches counts
} bundle_window;

// A size that follows a symbol is `most` at the symbol's most, less by `step` for each granule. In
// files these are the symbol's most and granularity.
typedef struct {
    int64_t most, step;
} bundle_symbol_size;

// One sdsc_<n>.json. Core c owns [slice * length, + length) of every dim, as far as the dim goes,
// with length = slice_size, or size / slices where that is 0.
typedef struct {
    const char *name;                       // "0_add"
    opfunc op;
    bool nonstick;                          // the "...nonstick" form of a reduction
    opfunc accumulator;                     // of a scatter that joins what is there by it; else ADD
    bool scanned[BUNDLE_MAX_DIMS];          // dims along which a SCAN runs
    uint32_t dim_count;
    char dim_name[BUNDLE_MAX_DIMS][8];
    int64_t size[BUNDLE_MAX_DIMS];          // N_, padded
    uint8_t symbol[BUNDLE_MAX_DIMS];        // the symbol that a size follows, its number + 1;
    bundle_symbol_size *symbol_size;        // 0: fixed. Of all dims, or null
    bundle_division *cores;                 // steps may share one
    uint32_t mask_count;
    bundle_mask *masks;                     // coordinateMasking_, at most one a dim
    int32_t mask_constant;                  // maskingConstId_, or -1
    bool mask_by_name;                      // the file's maskingConstId_ is another constant
    int64_t live_lanes;                     // liveLanes_: elements of the output's stick dim that
                                            // anything reads; 0: not known
    uint32_t window_count;
    bundle_window *windows;                 // at most BUNDLE_MAX_WINDOWS
    uint32_t constant_count;
    bundle_constant *constants;             // at most BUNDLE_MAX_CONSTANTS
    uint32_t tensor_count;
    bundle_tensor *tensors;
    uint32_t input_count, index_count;      // the output is one tensor
    uint8_t inputs[BUNDLE_MAX_TENSORS];
    uint8_t indices[2];
    uint8_t output;
    spyre_format compute_format;            // attributes_.dataFormat_
    const char *location;                   // user's source line, or null; the writer leaves it out
} bundle_step;

// The body of bundle.mlir: a flat list of statements; a loop ends at the matching END.
typedef enum { BUNDLE_EXECUTE, BUNDLE_LOOP, BUNDLE_END } bundle_statement_kind;
typedef struct {
    bundle_statement_kind kind;
    uint32_t step;              // EXECUTE
    int64_t count;              // LOOP
    uint32_t symbol;            // LOOP: 1 + the symbol whose value, divided by `per`, the count is;
    int64_t per;                // 0: fixed
} bundle_statement;

// A size that a launch chooses: a multiple of `granularity`, at most `most`, itself one.
typedef struct {
    char name[32];
    int64_t granularity, most;
} bundle_symbol;

// A part of a larger tensor that begins where sizes say: `bytes` nearer for each granule that the
// symbol, or the product of several symbols in granules, is below its largest. Files have none.
typedef struct {
    uint32_t step, tensor;
    uint32_t symbols;           // bit s: symbol s is in the product
    int64_t bytes;
} bundle_move;

// Sizes that symbols decide are as large as they can be; bundle_bind() makes them others.
typedef struct {
    arena *memory;
    VEC(bundle_arg) args;
    VEC(bundle_step) steps;
    VEC(bundle_statement) body;
    VEC(bundle_symbol) symbols;
    VEC(bundle_move) moves;
    const uint8_t *constants;               // bytes of the CONSTANTS argument
    int64_t constants_bytes;
} bundle;

// Bit k: argument k is a pool, which has no contents between launches.
static inline uint32_t bundle_pools(const bundle *b)
{
    uint32_t pools = 0;
    for (uint32_t k = 0; k < b->args.count && k < 32; k++)
        if (b->args.items[k].kind == BUNDLE_ARG_POOL) pools |= UINT32_C(1) << k;
    return pools;
}

// The steps in the order of the body, with the rounds of the loops around each.
typedef struct {
    const bundle *of;
    uint32_t at, depth;                     // the next statement; loops around the step
    int64_t rounds[BUNDLE_MAX_LOOPS];       // by depth; 1 beyond
    uint32_t number;                        // of the step
} bundle_walk;

bundle_walk bundle_walk_of(const bundle *b);

// The next step, or null behind the last one.
bundle_step *bundle_next_step(bundle_walk *walk);

// The statement behind the END of the loop that begins at `at`.
uint32_t bundle_behind_loop(const bundle *b, uint32_t at);

// An empty bundle in `memory`, or null when memory is short.
bundle *bundle_create(arena *memory);

// A step in the making, with room for all that a step may have of what most have none of.
typedef struct {
    bundle_symbol_size symbol_size[BUNDLE_MAX_DIMS];
    bundle_mask masks[BUNDLE_MAX_DIMS];
    bundle_window windows[BUNDLE_MAX_WINDOWS];
    bundle_constant constants[BUNDLE_MAX_CONSTANTS];
} bundle_step_room;

static inline bundle_step bundle_begin_step(bundle_step_room *room)
{
    return (bundle_step){.symbol_size = room->symbol_size,
                         .masks = room->masks,
                         .windows = room->windows,
                         .constants = room->constants};
}

// Appends a step and its EXECUTE statement; `step` is copied, with its masks, windows, constants
// and sizes that follow symbols.
SPYRE_MUST_CHECK spyre_status bundle_add_step(bundle *b, const bundle_step *step);

// Where each of a step's cores finds its first element.
SPYRE_MUST_CHECK spyre_status bundle_set_starts(arena *memory, uint32_t core_count,
                                                const int64_t *starts, bundle_tensor *tensor);

// True when every core of a step finds its first element in the same place of both.
bool bundle_same_starts(const bundle_tensor *a, const bundle_tensor *b, uint32_t core_count);

// Where a tensor's elements are, derived from the fields above by the addressing rule:
//   address(core, i) = start(core) + base + sum over dims d of bundle_offset_bits(d, i_d) / 8
//   offset(d, i)     = (i / span) * stride[d] + lane(i % span) * element, with span the elements
//                      of d in a stick (1 for most dims), lane(j) = j but in one of several dims
// with i the core-local index. stride is 0 for a dim along which the tensor does not move; then
// `moves` is false. Of a window's two dims stride is the window's stride or dilation times that of
// the input, and base leads to what index 0 of both reads. valid[d] is the count of indices from
// the start of the whole dim that the tensor really has (less than size[d] only for ReStickifyOpHBM
// and for masked dims with a negative gap); extent[d] is the count of strides that dim d spans.
typedef struct {
    int64_t stride[BUNDLE_MAX_DIMS];        // bytes
    int64_t extent[BUNDLE_MAX_DIMS];        // sticks for the stick dim, else indices
    int64_t valid[BUNDLE_MAX_DIMS];         // elements
    bool moves[BUNDLE_MAX_DIMS];
    int64_t base;                           // bytes, 0 but for front padding
    int64_t bytes;                          // from the lowest address of core 0 to the end
} bundle_geometry;

SPYRE_MUST_CHECK spyre_status bundle_tensor_geometry(const bundle *b, const bundle_step *step,
                                                     uint32_t tensor, bundle_geometry *out);

// True for a dim whose indices each give results: the output moves along it, or an index of a
// scatter, which says where they go.
bool bundle_walks_dim(const bundle_step *step, uint32_t dim);

// Dims that some input moves along and that are not walked, in the order of N_.
uint32_t bundle_reduced_dims(const bundle *b, const bundle_step *step,
                             uint8_t out_dims[BUNDLE_MAX_DIMS]);

// A dim of size[d] whose masked range is [mask start, size): elements from `start` on are padding.
// Returns size[d] when unmasked.
int64_t bundle_unmasked_size(const bundle_step *step, uint32_t dim);

// Elements of a dim that the output stores, over all cores: size[dim]; for a product or an
// element-wise step whose stick dim is one 16-bit stick, half a stick if live_lanes fit in it.
int64_t bundle_stored_size(const bundle_step *step, uint32_t dim);

// Elements that are computed: those that are not masked, and of element-wise steps those that are
// stored.
int64_t bundle_computed_size(const bundle_step *step, uint32_t dim);

// Whether a step computes elements one by one and has masked ones, which are computed of the mask
// constant: torch-spyre keeps padding of `exp` from overflowing so.
bool bundle_fills_masked(const bundle_step *step);

// The bundle with symbol s at values[s], in `memory` as far as it differs. What lies at an offset
// of an argument or of LX stays there but for moves; within a tensor, slices begin where they do at
// that size.
// SPYRE_INVALID_ARGUMENT for a value that the symbol does not have.
SPYRE_MUST_CHECK spyre_status bundle_bind(arena *memory, const bundle *b, const int64_t *values,
                                          bundle **out_bundle);

// Checks every rule that the interpreter and the back-end rely on; the message names step, tensor,
// field, value and rule.
SPYRE_MUST_CHECK spyre_status bundle_verify(const bundle *b);

#endif
