// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the lowering share.
#ifndef KTIR_LOWERING_H
#define KTIR_LOWERING_H

#include "ktir/lower/lower.h"

enum {
    LOWERING_NO_MEMORY = -1,
    LOWERING_MOST_LIVE = 192,           // buffers in LX at one time
    LOWERING_MOST_UNROLLED = 1 << 16,   // iterations of one loop
    LOWERING_MOST_ITERATIONS = 1000000000,  // of a loop and those around it, in all
    LOWERING_MOST_CODE = 1 << 20,       // instructions
};

// A number on every core, inside the open loops.
typedef struct {
    int64_t at[ISA_CORES];
    int64_t loop[ISA_MAX_LOOPS];        // added an iteration
    int32_t memory;                     // an address: the program's argument, or LOWERING_NO_MEMORY
} lowered_index;

// A tensor, or a floating-point number (rank 0): a part of LX, or the same number everywhere.
typedef struct {
    bool is_constant;
    double value;
    bool is_natural;                    // integers, none of them negative
    spyre_format format;
    ktir_element element;
    int64_t offset;                     // byte of LX
    uint32_t rank;
    int64_t size[KTIR_MOST_RANK], stride[KTIR_MOST_RANK];       // stride in bytes
    int64_t loop[ISA_MAX_LOOPS];        // bytes further in each iteration of the open loops
} lowered_tensor;

typedef struct {
    lowered_index *index;               // one of the two, or neither
    lowered_tensor *tensor;
    const int64_t *sliced;              // sizes of a tensor larger than LX, made at its store
} lowered_cell;

typedef struct {
    int64_t offset, bytes;
    uint32_t last;                      // the last operation that reads it
    uint32_t holds;                     // of loops whose next iterations read it
} lowered_buffer;

typedef struct {
    uint32_t count;
    lowered_buffer items[LOWERING_MOST_LIVE];   // by offset
} lowered_heap;

typedef VEC(int64_t *) lowered_slots;           // [slot][ISA_CORES]

// Bytes of views in LX that these cores have written, or got from the caller.
typedef struct {
    uint32_t cores;
    int64_t begin, end;
} lowered_bytes;

typedef struct lowered_points lowered_points;   // of irregular tiles (lower_irregular_tiles.c)

typedef struct lowering {
    const ktir_module *m;
    const ktir_lowering *call;
    arena *memory;
    isa_program *program;
    lowered_cell *cells;                // [values]
    uint32_t *last_use;                 // [values]
    uint32_t *parent;                   // [operations]: the one whose region it is in
    int32_t *memory_of;                 // [arguments]: the program's argument
    uint32_t first_placed;              // the program's argument of placed[0]
    uint32_t memory_count;              // the program's arguments but for the numbers 0, 1, ..
    uint32_t tiles, first_tile;         // of the grid; of core 0
    uint32_t waves;                     // of ISA_CORES compute tiles, taken by loop 0; 0: no loop
    uint32_t present, active;           // cores that have a compute tile; that take part now
    uint32_t depth;                     // open loops
    int64_t trips[ISA_MAX_LOOPS];
    bool in_kernel;
    uint32_t kernel_depth;              // open loops where the kernel begins
    lowered_slots slots;                // of the open kernel
    isa_queue last_queue;               // of the last instruction in it; ISA_QUEUE_SEQ: none
    lowered_heap heap;
    bool wants_break, wants_unroll;     // why a rolled loop could not be
    bool counts;                        // the program's last argument holds 0, 1, ..
    VEC(lowered_bytes) known;
    const lowered_points *points;
    ktir_places places;
    spyre_status (*op)(struct lowering *w, uint32_t number);
} lowering;

#define LOWER_NO(w, op, ...) ktir_error((w)->m, (op), SPYRE_UNSUPPORTED, __VA_ARGS__)

static inline const lowered_cell *lower_operand(const lowering *w, const ktir_op *op, uint32_t n)
{
    return &w->cells[ktir_operand(w->m, op, n)];
}

// The number of an operation.
static inline uint32_t lower_number(const lowering *w, const ktir_op *op)
{
    return (uint32_t)(op - w->m->ops.items);
}

// --- Emission (lower_emit.c)

SPYRE_MUST_CHECK spyre_status lower_end_kernel(lowering *w);
SPYRE_MUST_CHECK spyre_status lower_loop(lowering *w, const ktir_op *op, int64_t trips);
SPYRE_MUST_CHECK spyre_status lower_end_loop(lowering *w, isa_queue first_queue);

// The first queue that works behind instruction `from`.
isa_queue lower_first_queue(const lowering *w, uint32_t from);

// An instruction in the open kernel, which is begun when there is none; queues take turns.
SPYRE_MUST_CHECK spyre_status lower_emit(lowering *w, const ktir_op *op, isa_instruction i);

// The parameter with these numbers of the cores.
SPYRE_MUST_CHECK spyre_status lower_slot(lowering *w, const ktir_op *op, const int64_t *at,
                                         uint16_t *out_slot);

// The same over `rank` dims of `size`; strides of tensors and of a memory operand. Dims that all
// walk as one are merged, the last `keep` of them stay.
typedef struct {
    isa_instruction i;
    uint32_t rank, keep;
    int64_t size[ISA_MAX_DIMS + KTIR_MOST_RANK];
    int64_t stride[ISA_MAX_OPERANDS][ISA_MAX_DIMS + KTIR_MOST_RANK];
} lowered_tile;
SPYRE_MUST_CHECK spyre_status lower_tile(lowering *w, const ktir_op *op, lowered_tile *tile);

// Room in LX until operation `last` has been lowered.
SPYRE_MUST_CHECK spyre_status lower_allocate(lowering *w, const ktir_op *op, int64_t bytes,
                                             uint32_t last, int64_t *out_offset);
// What lies at `offset` is read until `last`.
void lower_keep(lowering *w, int64_t offset, uint32_t last);
// What there is now, to be read until `last`, stays when that has been lowered, until it is let go:
// a loop's body may be lowered several times, and its last operation ends the loop, too.
void lower_hold(lowering *w, uint32_t last);
void lower_let_go(lowering *w, uint32_t last);
void lower_free(lowering *w, uint32_t number);      // what is read last by operation `number`

// --- Cores that meet (lower_inter_tile_reduce.c)

// A kernel of these cores begins, behind what all have done.
SPYRE_MUST_CHECK spyre_status lower_meet(lowering *w, const ktir_op *op, uint32_t cores);

// SEND or RECEIVE of the active cores, with peers[core].
SPYRE_MUST_CHECK spyre_status lower_message(lowering *w, const ktir_op *op, isa_opcode opcode,
                                            const lowered_tensor *t, const int64_t *peers);

// --- Tensors for a while (lower_emit.c)

typedef struct {
    uint32_t rank;
    const int64_t *size;
} lowered_sizes;

static inline lowered_sizes lower_sizes(const lowered_tensor *t)
{
    return (lowered_sizes){t->rank, t->size};
}

// A dense one until operation `last`; as large as another until this operation ends.
SPYRE_MUST_CHECK spyre_status lower_scratch(lowering *w, const ktir_op *op, spyre_format format,
                                            lowered_sizes sizes, uint32_t last,
                                            lowered_tensor *out);
SPYRE_MUST_CHECK spyre_status lower_scratch_like(lowering *w, const ktir_op *op,
                                                 spyre_format format, const lowered_tensor *like,
                                                 lowered_tensor *out);

// --- One function on vectors (lower_vector.c)

// target = opfunc(inputs) element by element; constants and dims of stride 0 are broadcast.
SPYRE_MUST_CHECK spyre_status lower_vector(lowering *w, const ktir_op *op, opfunc function,
                                           const lowered_tensor *target,
                                           const lowered_tensor *const *inputs, uint32_t count);
// The status of to = opfunc(inputs), as they are listed.
#define LOWER_VECTOR(function, to, ...)                                                       \
    lower_vector(w, op, OPFUNC_##function, to, (const lowered_tensor *[]){__VA_ARGS__},       \
                 sizeof((const lowered_tensor *[]){__VA_ARGS__}) / sizeof(void *))
SPYRE_MUST_CHECK spyre_status lower_copy(lowering *w, const ktir_op *op,
                                         const lowered_tensor *target,
                                         const lowered_tensor *source);
// One that lies in LX: a constant is filled in.
SPYRE_MUST_CHECK spyre_status lower_in_lx(lowering *w, const ktir_op *op, const lowered_tensor *t,
                                          lowered_tensor *out);

// --- Tensors (lower_tensor.c)

// A dense one in LX for value `value`.
SPYRE_MUST_CHECK spyre_status lower_new(lowering *w, const ktir_op *op, uint32_t value,
                                        ktir_element element, lowered_sizes sizes,
                                        lowered_tensor **out);

// The same number everywhere, as an input of any size.
static inline lowered_tensor lower_constant(spyre_format format, double value)
{
    return (lowered_tensor){.is_constant = true, .format = format, .value = value};
}

bool lower_is_dense(const lowered_tensor *t);

// Whether a tensor is all of a place, element by element: other strides are another tensor.
bool lower_is_place(const lowered_tensor *t, const lowered_tensor *place);
// Gives a place the elements of `source`, which may lie in some of its bytes.
SPYRE_MUST_CHECK spyre_status lower_hand(lowering *w, const ktir_op *op,
                                         const lowered_tensor *place,
                                         const lowered_tensor *source);

// The operation's result, where its value will be wanted: of `element` and shape `size`.
SPYRE_MUST_CHECK spyre_status lower_result(lowering *w, const ktir_op *op, ktir_element element,
                                           uint32_t rank, const int64_t *size,
                                           lowered_tensor **out);
void lower_set_tensor(lowering *w, uint32_t value, lowered_tensor *t);
// A fault where sizes of operands, which their types may leave open, are not the same.
SPYRE_MUST_CHECK spyre_status lower_agree(const lowering *w, const ktir_op *op,
                                          const int64_t *size, const int64_t *other);
// An operation on elements of a tensor that is made in slices is done at the store.
SPYRE_MUST_CHECK spyre_status lower_slice_elements(lowering *w, const ktir_op *op,
                                                   bool *out_sliced);

// --- Numbers as elements (lower_iota.c)

// A number of every core as one int32 in LX: loaded from the memory that holds 0, 1, ..
SPYRE_MUST_CHECK spyre_status lower_number_tensor(lowering *w, const ktir_op *op,
                                                  const lowered_index *x, lowered_tensor *out);
// The same as a number of a type.
SPYRE_MUST_CHECK spyre_status lower_number_of(lowering *w, const ktir_op *op,
                                              const lowered_index *x, ktir_element element,
                                              lowered_tensor *out);
// The index along dim `dim` of a space, as int32: what linalg.index gives.
SPYRE_MUST_CHECK spyre_status lower_count_along(lowering *w, const ktir_op *op, uint32_t last,
                                                lowered_sizes space, uint32_t dim,
                                                lowered_tensor *out);

// --- Integers (lower_integer.c)

// target = integer(inputs) element by element.
SPYRE_MUST_CHECK spyre_status lower_integer(lowering *w, const ktir_op *op, ktir_integer integer,
                                            const lowered_tensor *target,
                                            const lowered_tensor *const *inputs, uint32_t count);
SPYRE_MUST_CHECK spyre_status lower_cast(lowering *w, const ktir_op *op,
                                         const lowered_tensor *target, const lowered_tensor *from);
SPYRE_MUST_CHECK spyre_status lower_compare(lowering *w, const ktir_op *op,
                                            const lowered_tensor *target,
                                            const lowered_tensor *const *inputs);

// --- Of the math dialect, in several instructions (lower_math.c)

SPYRE_MUST_CHECK spyre_status lower_round_away(lowering *w, const ktir_op *op,
                                               const lowered_tensor *target,
                                               const lowered_tensor *x);
SPYRE_MUST_CHECK spyre_status lower_clamp(lowering *w, const ktir_op *op,
                                          const lowered_tensor *target,
                                          const lowered_tensor *const *in);
// Truths: math.isnan, isinf, isfinite, isnormal.
SPYRE_MUST_CHECK spyre_status lower_class(lowering *w, const ktir_op *op,
                                          const lowered_tensor *target, const lowered_tensor *x);
// Counts of bits and powers of integers.
SPYRE_MUST_CHECK spyre_status lower_bits(lowering *w, const ktir_op *op, ktir_integer integer,
                                         const lowered_tensor *target,
                                         const lowered_tensor *const *in);

// --- Operations, by file

// An operation of the form that lower_elementwise takes, on elements that are there. `op` has its
// attributes, and is it or a linalg.map that names it.
SPYRE_MUST_CHECK spyre_status lower_elements(lowering *w, const ktir_op *op, ktir_opcode opcode,
                                             const lowered_tensor *target,
                                             const lowered_tensor *const *inputs, uint32_t count);

SPYRE_MUST_CHECK spyre_status lower_indices(lowering *w, const ktir_op *op, bool *out_done);
SPYRE_MUST_CHECK spyre_status lower_elementwise(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_shape(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_linalg(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_generic(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_map_region(lowering *w, const ktir_op *op);
// linalg.reduce by what the card does not reduce by: element after element of the reduced dims.
SPYRE_MUST_CHECK spyre_status lower_reduce_in_loops(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_load(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_store(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_tile_reduce(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_begin_lx(lowering *w);
SPYRE_MUST_CHECK spyre_status lower_end_lx(lowering *w);
SPYRE_MUST_CHECK spyre_status lower_for(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_while(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_nest(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_scf_reduce(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_if(lowering *w, const ktir_op *op);
SPYRE_MUST_CHECK spyre_status lower_region(lowering *w, const ktir_region *region);

// The function, of which wave 0 has begun, for `waves` times ISA_CORES compute tiles: a loop inside
// of a kernel or `around` kernels, where all that it computes of indices advances alike on all
// cores. Else *out_done is false and no code is left.
SPYRE_MUST_CHECK spyre_status lower_wave_loop(lowering *w, uint32_t waves, bool around,
                                              bool *out_done);

// The number when it is the same on all active cores and in all iterations.
bool lower_uniform(const lowering *w, const lowered_index *x, int64_t *out_number);
lowered_index *lower_index_of(lowering *w, int64_t number);

#endif
