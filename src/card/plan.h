// SPDX-License-Identifier: Apache-2.0
//
// A loaded program: per kernel and queue the steps that the queue walks, per instruction the tile
// with everything that does not depend on core and iteration. Internal to src/card.
#ifndef CARD_PLAN_H
#define CARD_PLAN_H

#include "card/matmul/product.h"
#include "card/strip/strip.h"
#include "isa/isa.h"

typedef struct plan_tile plan_tile;
typedef struct chain chain;
typedef struct exchange exchange;
typedef struct spread spread;
typedef struct through through;

// Memory that a host thread reuses from tile to tile.
typedef struct {
    void *rows, *columns;                   // packed operands of a matmul
    void *sums;                             // its results between parts of k
    void *results;                          // where its rows go
    size_t rows_bytes, columns_bytes, sums_bytes, results_bytes;
    size_t cache_bytes;                     // the host's second cache, a core's; 0: not known
} plan_scratch;

// Executes one tile. address[o] is element 0 of operand o, bounds are checked already.
typedef void plan_run(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch);

// Bytes an operand touches, relative to its element 0: [low, high).
typedef struct {
    int64_t low, high;
} plan_span;

struct plan_tile {
    const isa_instruction *instruction;
    plan_span span[ISA_MAX_OPERANDS];
    // The same elements in the same order with fewer dims: extents of 1 dropped, neighbours merged
    // where every operand allows. At least one dim.
    uint32_t dim_count;
    int64_t extent[ISA_MAX_DIMS];
    int64_t stride[ISA_MAX_OPERANDS][ISA_MAX_DIMS];
    plan_run *fast;
    strip_function *strip;                  // of `fast`, where it has one
    strip_reducer *reducer;
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

// Cores that gain from multiplying together (batch.c): so many in a row of the active cores.
typedef struct {
    uint32_t cores;
    uint8_t order[ISA_CORES];
} plan_gang;

typedef struct {
    const isa_kernel *source;
    uint32_t order;                         // which kernel of the code
    uint32_t outer_depth;                   // loops around the kernel
    VEC(plan_memory) memory;                // of a fused kernel
    uint32_t step_count[ISA_QUEUE_COUNT];
    plan_step *steps[ISA_QUEUE_COUNT];      // end with STEP_END; SEQ: fused (fuse.h), or null
    bool has_matmul;
    plan_gang gang;
    bool only_matmuls;                      // fused, it has no other steps
    const chain *chain;                     // of this kernel and those behind it, or null
    const exchange *exchange;               // instead of its steps in fast mode, or null
    const spread *spread;                   // of this kernel and those behind it, or null
    const through *through;                 // instead of its exchange, when the next kernel joins
    bool sends_later;                       // fast mode: the exchange of the next kernel does it
    bool joins;                             // runs with the kernel before without meeting (local.h)
    double weight_bytes;                    // rough work of all cores, to choose host threads
} plan_kernel;

// What the card does between kernels: loops around them.
typedef enum { PHASE_KERNEL, PHASE_LOOP, PHASE_END_LOOP } phase_kind;

typedef struct {
    phase_kind kind;
    uint32_t depth;
    uint32_t count;                         // LOOP: iterations
    uint32_t body;                          // END_LOOP: first phase of the body
    plan_kernel *kernel;
} plan_phase;

// A kernel without loops around it.
static inline bool plan_is_plain(const plan_phase *phase)
{
    return phase->kind == PHASE_KERNEL && phase->depth == 0;
}

struct card_program {
    arena *memory;
    const isa_program *program;             // own copy
    VEC(plan_phase) phases;
    VEC(uint16_t) stored;                   // arguments that are written
    bool lx_dead_after;                     // LX has no reader after the program
};

// A tile for an instruction, which must outlive it.
SPYRE_MUST_CHECK spyre_status plan_make_tile(arena *memory, const isa_instruction *i,
                                             plan_tile **out_tile);

// The executors. exact_run is the definition; fast_choose returns a function that gives the same
// bytes, or exact_run itself.
void exact_run(const plan_tile *tile, uint8_t *const *address, plan_scratch *scratch);
plan_run *fast_choose(plan_tile *tile);

// True when writing operand 0 element by element cannot change what is later read from operand o:
// the two do not overlap, or each element is read before its own place is written.
bool plan_independent(const plan_tile *tile, uint8_t *const *address, uint32_t operand);

// No two indices of operand o share a byte (its strides nest).
bool plan_injective(const plan_tile *tile, uint32_t operand);

// Lanes a column stick of a matmul has: elements of operand 1's format in a stick.
static inline uint32_t matmul_lanes(const isa_instruction *i)
{
    return spyre_format_elements_per_stick(i->operand[1].format);
}

#endif
