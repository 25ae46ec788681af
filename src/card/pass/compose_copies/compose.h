// SPDX-License-Identifier: Apache-2.0
//
// What compose_copies.c knows of the kernels of a program, and its steps: operands that may be read
// where copies have their elements from (composed_operand.c), which of them are
// (choose_composed.c) by what tiles take (composed_times.c), copies that nothing reads then
// (dead_copies.c), and the phases that are left (composed_kernels.c), by what tiles touch
// (composed_tiles.c).
#ifndef CARD_COMPOSE_H
#define CARD_COMPOSE_H

#include "card/footprint/contents.h"
#include "card/plan/pass.h"

// A tile, with the loops around it as dims.
typedef struct {
    const plan_step *steps;                 // of the kernel, from the loops to their ends
    uint32_t count;
    bool shares_loop;                       // with other tiles, one after the other now
    plan_tile *tile;
    VEC(plan_tile *) instead;               // what reads elsewhere; empty: nothing does
    uint32_t behind;                        // the first kernel behind what `instead` reads in LX
    double ns, instead_ns;                  // of the host
    bool elsewhere;                         // `instead` is chosen
    bool dropped;
} composed_tile;

// A kernel of tiles, one in each of its loops.
typedef struct {
    plan_kernel *kernel;                    // null for any other phase
    VEC(composed_tile) tiles;
    VEC(const int64_t *) slots;             // [core] added parameters
    bool changed;
} composed_kernel;

typedef struct {
    const translation *t;
    arena *memory, *scratch;
    byte_range *arguments;                  // bytes of each that are touched
    uint32_t lx_bytes;                      // of LX
    composed_kernel *kernels;               // [phase]
    uint32_t temporary;                     // bit a: argument a is followed, as LX is
    uint32_t map_count;
    content_map needed[CONTENTS_MOST_MAPS]; // of units: cores that read them later
} composer;

// The bytes that an operand touches over all cores of the kernel, whose added parameters count.
byte_range compose_range(const composed_kernel *k, const isa_instruction *i, uint32_t o);

double compose_elements(const plan_tile *tile);

// Calls fn for the operands in memory of a kernel's code, with their bytes over all cores and
// iterations.
typedef spyre_status compose_touch(void *context, const isa_instruction *i, uint32_t o,
                                   byte_range bytes);
SPYRE_MUST_CHECK spyre_status compose_each_in_memory(const translation *t,
                                                     const plan_kernel *kernel, compose_touch *fn,
                                                     void *context);

// What a tile takes the host, on one core.
double compose_ns(const plan_tile *tile);

// Chooses which tiles read elsewhere and which copies are dropped: what leaves least time in all.
// False where that is not worth it.
SPYRE_MUST_CHECK spyre_status compose_choose(composer *c, bool *out_any);

// Which units are read from here to the end of the program: of none at first, then back over code
// and tiles, which also tells whether the tile, a copy whose result nothing reads, is dropped.
SPYRE_MUST_CHECK spyre_status compose_begin_needed(composer *c);
SPYRE_MUST_CHECK spyre_status compose_need_of_code(composer *c, const plan_kernel *kernel);
void compose_need_of_tile(composer *c, const composed_kernel *k, composed_tile *tile);

// The phases of what is left become those of the program.
SPYRE_MUST_CHECK spyre_status compose_write_phases(composer *c, translation *t);

// --- Operands

// A part of an instruction, of which operand `operand` may be read where its
// elements lie, in all dims.
typedef struct {
    isa_instruction piece, rest;            // rest: what is behind the piece
    bool has_rest;
    const content_source *source;
    int64_t low, stride[ISA_MAX_DIMS];      // bytes in the source's space; of the first core
} composed_piece;

// The dims of a tile instead of its instruction's.
isa_instruction compose_merge_dims(const plan_tile *tile);

// The longest prefix that is affine and worth it: runs as long as where it would be read, or a copy
// that transposes as the one from there does. False where there is none. `i`, of the kernel, has no
// loops around it.
bool compose_operand(const contents *c, const isa_kernel *kernel, const isa_instruction *i,
                     uint32_t operand, composed_piece *out);

#endif
