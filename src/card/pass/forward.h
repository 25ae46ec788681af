// SPDX-License-Identifier: Apache-2.0
//
// What forward_copies and accumulate_matmuls know of a kernel whose queues never wait. What reads
// the bytes of a LOAD reads memory itself, what computes the bytes of a STORE writes memory itself;
// loads and stores without a reader are left out. Operands of such tiles may lie in memory whatever
// the instruction.
//
// The tiles give the bytes of the plain instructions when LX is not read after the program
// (card_program_forget_lx) and tiles_allowed() agrees for the arguments of the launch.
#ifndef CARD_FORWARD_H
#define CARD_FORWARD_H

#include "card/plan/pass.h"

struct forwarding {
    arena *memory;
    const isa_program *program;
    plan_tile *const *tiles;
    const lx_ranges *exposed;
    const lx_summaries *lx;
    const plan_kernel *kernel;
    plan_tile **out;
    lx_access_list accesses;                // those of the translation
    bool *replaced;                         // an access: it does not touch LX any more
};

// The dims of a tile as they nest in its operand `from`, the longest stride first: what lies at an
// offset there has one index for each.
typedef struct {
    uint32_t count;
    int64_t from[ISA_MAX_DIMS], to[ISA_MAX_DIMS], extent[ISA_MAX_DIMS]; // strides in two operands
} tile_nest;

tile_nest tile_nest_of(const plan_tile *tile, uint32_t from, uint32_t to);

// From bytes of operand `from` to bytes of operand `to`; false when the tile has no element there.
bool tile_nest_map(const tile_nest *nest, int64_t from, int64_t *to);

// Rewrites operand o of `work`, which lies in LX inside what a LOAD or STORE (`copy`) moves in the
// same iteration of its loops, to the memory of that copy. A dim may be split. `depth` and
// `iterations` are of the loops around `work`, the first copy_depth of which `copy` shares. False,
// with `work` in any state, when the place in memory is not affine.
bool forward_operand(isa_instruction *work, uint32_t o, const plan_tile *copy, uint32_t copy_depth,
                     uint32_t depth, const uint32_t *iterations);

// The instruction whose write the read finds, unless it has holes there; or null when that is not
// one instruction, or a later iteration of a loop that only the read is in could find something
// else.
const lx_access *forward_writer_of(const forwarding *f, uint32_t read);

// True when some read that stays in LX, or a later kernel, may need what the instruction writes;
// `but` is not asked.
bool forward_is_needed(const forwarding *f, const lx_access *write, const lx_access *but);

#endif
