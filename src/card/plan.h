// SPDX-License-Identifier: Apache-2.0
//
// A loaded program: per kernel and queue the steps that the queue walks, per instruction the tile
// with everything that does not depend on core and iteration. Internal to src/card.
#ifndef CARD_PLAN_H
#define CARD_PLAN_H

#include "card/card.h"
#include "card/footprint/range.h"
#include "card/matmul/product.h"
#include "card/simd/simd.h"

typedef struct plan_tile plan_tile;
typedef struct row_fusion row_fusion;
typedef struct message_copies message_copies;
typedef struct remote_operand remote_operand;

// Rows of a row fusion.
typedef struct {
    uint32_t begin, end;
} row_range;

typedef struct rows_thread rows_thread;     // row_fusion/run/run_rows.c

// Memory that a host thread reuses from tile to tile.
typedef struct {
    rows_thread *fusion;                    // from core to core of a row fusion
    void *rows, *columns;                   // packed operands of a matmul
    void *sums;                             // its results between parts of k
    void *results;                          // where its rows go
    size_t rows_bytes, columns_bytes, sums_bytes, results_bytes;
    size_t cache_bytes;                     // the host's second cache, a core's; 0: not known
} plan_scratch;

// Executes one tile. address[o] is element 0 of operand o, bounds are checked already.
typedef void plan_run(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch);

// What a tile's function takes for granted of its addresses.
enum {
    NEEDS_INDEPENDENT = 1 << 0,             // plan_independent for every input
    NEEDS_APART = 1 << 1,                   // the result overlaps no input
    NEEDS_INDEX_APART = 1 << 2,             // the result does not overlap operand 2
    NEEDS_ALIGNED = 1 << 3,                 // operands begin at multiples of their elements' size
};
typedef struct {
    plan_run *run;
    uint32_t needs;
} plan_executor;

struct plan_tile {
    const isa_instruction *instruction;
    byte_range span[ISA_MAX_OPERANDS];      // touched bytes, from element 0 of each operand
    // The same elements in the same order with fewer dims: extents of 1 dropped, neighbours merged
    // where every operand allows. At least one dim.
    uint32_t dim_count;
    int64_t extent[ISA_MAX_DIMS];
    int64_t stride[ISA_MAX_OPERANDS][ISA_MAX_DIMS];
    bool streams;                           // stream_results: the result goes past the caches
    plan_executor executor;
    simd_function *simd;                    // of `fast`, where it has one
    simd_reducer *reducer;
    product *product;                       // of a MATMUL; null: it has no fast form
};

typedef enum {
    STEP_EXECUTE,
    STEP_WAIT,
    STEP_SIGNAL,
    STEP_LOOP,
    STEP_END_LOOP,
    STEP_END,
} step_kind;

typedef struct {
    step_kind kind;
    uint32_t instruction;                   // index in the program, for messages
    uint32_t depth;                         // EXECUTE: enclosing loops; LOOP: its own level
    uint32_t count;                         // token, or iterations
    uint32_t body;                          // END_LOOP: first step of the loop's body
    const plan_tile *tile;
} plan_step;

// Bytes of an argument that an instruction touches, over all cores and iterations.
typedef struct {
    uint16_t arg;
    bool stores;
    int64_t low, high;
    uint32_t at;                            // the instruction
    uint32_t twin;                          // of a load: entry of a store of the same elements
} plan_memory;
#define PLAN_NO_TWIN UINT32_MAX

// Cores that a host thread takes along together: so many in a row of the active cores, in this
// order.
typedef struct {
    uint32_t cores;
    uint8_t order[ISA_CORES];
} core_group;

// The loops open at an instruction.
typedef struct {
    uint32_t depth;
    uint32_t loop_id[ISA_MAX_LOOPS];        // the instruction that opens it
    uint32_t iterations[ISA_MAX_LOOPS];
} loop_nest;

// Opens or closes a loop when the next instruction, number `at`, does.
void loop_nest_follow(loop_nest *nest, const isa_instruction *i, uint32_t at);

// The same by steps.
void loop_nest_step(loop_nest *nest, const plan_step *step);

// Whether the outermost `depth` loops of both are the same ones.
bool loop_nest_same(const loop_nest *a, const loop_nest *b, uint32_t depth);

// A product that is the only reader of the rows that messages would copy: it reads them in LX of
// the senders, where they stay until the next barrier.
struct remote_operand {
    const plan_tile *tile;                  // all that the kernel behind the messages does
    plan_tile instead;                      // the same, operand 1 as it lies with the senders
    int64_t from[ISA_CORES];                // bytes from LX of core 0 to a core's operand 1
};

// What passes find out about a kernel. Each field is one pass's.
typedef struct plan_kernel {
    const isa_kernel *source;
    uint32_t order;                         // which kernel of the code
    uint32_t begin, end;                    // its instructions
    loop_nest around;                       // loops around the kernel
    bool has_matmul;
    double weight_bytes;                    // rough work of all cores, to choose host threads
    uint32_t step_count[ISA_QUEUE_COUNT];
    plan_step *steps[ISA_QUEUE_COUNT];      // end with STEP_END; SEQ: list_steps, or null
    bool in_order;                          // forward_copies: no queue would ever wait
    VEC(plan_memory) memory;                // list_steps: what its tiles touch
    bool only_matmuls;                      // list_steps: it has no other tiles
    core_group group;                       // list_steps: cores that share operands of products
    const message_copies *messages;         // match_messages: instead of its steps, or null
    bool sends_later;                       // match_messages: the next kernel's copies do it
    bool no_barrier;                        // remove_barriers: runs with the kernel before
    const row_fusion *rows;                 // fuse_rows: of this kernel and those behind it
    bool composed;                          // compose_copies: its tiles read elsewhere
    const remote_operand *remote;           // remote_operands: nothing is copied
} plan_kernel;

// One thing that every unit of a stage does, a unit being a group of cores, a share of rows or a
// part of a core's kernel.
typedef enum {
    ACTION_TILES,                           // the kernel's list of tiles
    ACTION_ROWS,                            // its row fusion, block of rows after block
    ACTION_COPIES,                          // its messages, from LX to LX
} action_kind;

typedef VEC(plan_step) joined_steps;

typedef struct {
    action_kind kind;
    uint32_t first;                         // kernel, counted from the stage's first
    joined_steps joined;                    // join_cores: TILES for all cores of a unit at once, by
                                            // the places of its first; empty: core by core
    const row_range *shares;                // [unit] ROWS: only these rows, for the active core
    struct plan_kernel *const *parts;       // [unit] TILES: a share of what one core does, or null
    const remote_operand *remote;           // TILES: how its product reads, or null
} plan_action;

// Kernels that run without a barrier between them: every unit takes all actions in turn.
typedef struct {
    uint32_t kernels;
    uint32_t cores;                         // that take part, or numbers of shares or parts
    core_group group;                       // units: so many of them, in this order
    bool divides_products;                  // one unit; host threads divide its products
    bool private_lx;                        // private_lx: cores use the LX of their host thread
    double weight_bytes;
    VEC(plan_action) actions;
} plan_stage;

// What the card does between kernels: loops around them.
typedef enum { PHASE_KERNEL, PHASE_LOOP, PHASE_END_LOOP } phase_kind;

typedef struct {
    phase_kind kind;
    uint32_t depth;
    uint32_t count;                         // LOOP: iterations
    uint32_t body;                          // END_LOOP: first phase of the body
    plan_kernel *kernel;
    plan_stage *stage;                      // that begins here; null: its queues run the kernel
} plan_phase;

// A kernel without loops around it.
static inline bool plan_is_plain(const plan_phase *phase)
{
    return phase->kind == PHASE_KERNEL && phase->depth == 0;
}

struct card_program {
    arena *memory;
    const isa_program *program;             // the caller's
    VEC(plan_phase) phases;
    VEC(plan_phase) uncomposed;             // compose_copies: the same, without stages, for
                                            // arguments that overlap or are too short; or empty
    VEC(uint16_t) stored;                   // arguments that are written
    bool lx_dead_after;                     // LX has no reader after the program
};

// True when all that the kernel's tiles touch lies inside the arguments: faults are left to the
// queues, which name the right instruction.
bool tiles_inside(const plan_kernel *kernel, const card_argument *arguments);

// True when moreover no store can change what a load of the same kernel reads, for any arguments,
// the two being apart or element for element the same.
bool tiles_allowed(const plan_kernel *kernel, const card_argument *arguments);

// Whether one kernel writes an argument that the other reads.
bool plan_hands_over(const plan_kernel *from, const plan_kernel *to);

// The product that is all that the kernel does, or null.
const plan_tile *plan_lone_product(const plan_kernel *kernel);

// The bytes that an instruction touches through operand o in one iteration, from its element 0.
byte_range plan_span(const isa_instruction *i, uint32_t o);

// A tile for an instruction, which must outlive it.
SPYRE_MUST_CHECK spyre_status plan_make_tile(arena *memory, const isa_instruction *i,
                                             plan_tile **out_tile);

// A tile for a copy of an instruction.
SPYRE_MUST_CHECK spyre_status plan_copy_tile(arena *memory, const isa_instruction *i,
                                             plan_tile **out_tile);

// The bytes of LX, or of an argument at parameter 0, that an operand touches in iteration 0.
static inline byte_range plan_range(const plan_tile *tile, uint32_t operand)
{
    return range_shifted(tile->span[operand], tile->instruction->operand[operand].offset);
}

// Lets two dims of a tile change places.
static inline void plan_swap_dims(plan_tile *tile, uint32_t a, uint32_t b)
{
    const int64_t extent = tile->extent[a];
    tile->extent[a] = tile->extent[b];
    tile->extent[b] = extent;
    for (uint32_t o = 0; o < tile->instruction->operand_count; o++) {
        const int64_t stride = tile->stride[o][a];
        tile->stride[o][a] = tile->stride[o][b];
        tile->stride[o][b] = stride;
    }
}

// Orders the dims of a tile, whose elements may be taken in any order, as they lie in its result.
void plan_order_dims(plan_tile *tile);

// The executors. exact_run is the definition; tile_choose returns a function that gives the same
// bytes, or exact_run itself. tile_run executes a tile by its executor, or by exact_run where the
// addresses are not what that needs.
plan_run exact_run, tile_run;
plan_executor tile_choose(plan_tile *tile);

// True when writing operand 0 element by element cannot change what is later read from operand o:
// the two do not overlap, or each element is read before its own place is written.
bool plan_independent(const plan_tile *tile, uint8_t *const *address, uint32_t operand);

// No two indices of operand o share a byte (its strides nest).
bool plan_injective(const plan_tile *tile, uint32_t operand);

// What a REDUCE, REDUCESQ or FOLD sums.
static inline simd_sum plan_sum_of(const isa_instruction *i)
{
    return i->opcode == ISA_REDUCESQ ? SIMD_SQUARES : simd_sum_of(i->op);
}

// Lanes a column stick of a matmul has: elements of operand 1's format in a stick.
static inline uint32_t matmul_lanes(const isa_instruction *i)
{
    return spyre_format_elements_per_stick(i->operand[1].format);
}

#endif
