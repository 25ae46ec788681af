// SPDX-License-Identifier: Apache-2.0
//
// Kernels for fast mode: one list of steps in the order of the code instead of five queues. What
// reads the bytes of a LOAD reads memory itself, what computes the bytes of a STORE writes memory
// itself; loads and stores without a reader are left out. Found once, when a program is
// loaded; operands of such tiles may lie in memory whatever the instruction.
//
// The fused kernel gives the bytes of the plain one when LX is not read after the program
// (card_program_forget_lx) and fuse_allowed() agrees for the arguments of the launch.
#ifndef CARD_FUSE_H
#define CARD_FUSE_H

#include "card/card.h"
#include "card/fuse/lx_flow.h"

// True when the code of a kernel, taken instruction by instruction, never waits for a token or for
// the ring: then this is one of the orders its queues may take.
bool fuse_in_order(const isa_program *program, uint32_t begin, uint32_t end);

// Fills tiles_out[begin..end) with the fused tiles of a kernel's code: null for what is left out.
// Tiles that change are made anew in `memory`; `scratch` is for the way.
SPYRE_MUST_CHECK spyre_status fuse_kernel(arena *memory, arena *scratch,
                                          const isa_program *program, plan_tile *const *tiles,
                                          uint32_t begin, uint32_t end, const lx_place *outer,
                                          const lx_range_list *exposed, plan_tile **tiles_out);

// Rewrites operand o of `work`, which lies in LX inside what a LOAD or STORE (`copy`) moves in the
// same iteration of its loops, to the memory of that copy. A dim may be split. `depth` and
// `iterations` are of the loops around `work`, the first copy_depth of which `copy` shares. False,
// with `work` in any state, when the place in memory is not affine.
bool fuse_operand(isa_instruction *work, uint32_t o, const plan_tile *copy, uint32_t copy_depth,
                  uint32_t depth, const uint32_t *iterations);

// --- Kernels at work

// A kernel while it is being fused.
typedef struct {
    arena *memory;
    const isa_program *program;
    plan_tile *const *tiles;
    const lx_range_list *exposed;
    plan_tile **out;
    lx_access_list accesses;
    bool *replaced;                         // an access: it does not touch LX any more
} fusion;

// The instruction whose write the read finds, unless it has holes there; or null when that is not
// one instruction, or a later iteration of a loop that only the read is in could find something
// else.
const lx_access *fuse_writer_of(const fusion *f, uint32_t read);

// True when some read that stays in LX, or a later kernel, may need what the instruction writes;
// `but` is not asked.
bool fuse_is_needed(const fusion *f, const lx_access *write, const lx_access *but);

// The fused product that is all that the kernel does, or null.
const plan_tile *fuse_lone_product(const plan_kernel *kernel);

// Makes one step of a FILL with 0, the MATMULs that add to it and the VECTOR that rounds the sums,
// with all loops around that hold nothing else (fuse_matmul.c). The step stands where the first of
// them stood, which may be a LOOP.
SPYRE_MUST_CHECK spyre_status fuse_matmuls(fusion *f, uint32_t begin, uint32_t end);

// --- Memory (fuse_memory.c)

// Fills kernel->memory with what the code touches there.
SPYRE_MUST_CHECK spyre_status fuse_list_memory(arena *memory, const isa_program *program,
                                               plan_tile *const *tiles, plan_tile *const *fused,
                                               uint32_t begin, uint32_t end,
                                               const lx_place *outer, plan_kernel *kernel);

// True when all of it lies inside the arguments and no store can change what a load of the same
// kernel reads, the two being apart or element for element the same.
bool fuse_allowed(const plan_kernel *kernel, const card_argument *arguments);

#endif
