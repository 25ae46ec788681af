// SPDX-License-Identifier: Apache-2.0
//
// The passes of pass.def and what they share. A pass reads what earlier ones have found and writes
// fields of its own in plan.h.
#ifndef CARD_PASS_H
#define CARD_PASS_H

#include "card/card.h"
#include "card/footprint/lx_liveness.h"
#include "card/footprint/temporary_arguments.h"

typedef struct forwarding forwarding;

// A program on its way to a plan; arrays have one entry for each instruction or kernel.
typedef struct {
    card_program *loaded;
    const isa_program *program;             // the loaded one's
    arena *memory, *scratch;                // of the plan; of the passes
    uint32_t threads;                       // of the host
    plan_tile **tiles;                      // [instruction] as the program says
    plan_tile **forwarded;                  // [instruction] of kernels in order; null: left out
    lx_access_list *accesses;               // [kernel] of LX, by `tiles`
    lx_summaries lx;                        // [kernel]
    lx_ranges exposed;                      // of all kernels
    temporaries temporary;
    forwarding *kernels;                    // [kernel] between forward_copies and list_steps
} translation;

#define PASS_ROW(name, summary) SPYRE_MUST_CHECK spyre_status card_pass_##name(translation *t);
#include "card/plan/pass.def"
#undef PASS_ROW

// Fills the steps of one queue of a kernel, for ISA_QUEUE_SEQ of all instructions that have a tile.
SPYRE_MUST_CHECK spyre_status plan_list_steps(arena *memory, const isa_program *program,
                                              plan_tile *const *tiles, isa_queue queue,
                                              plan_kernel *kernel);

// Runs all passes. With `out`, writes after each of them the phases that it changed.
SPYRE_MUST_CHECK spyre_status plan_run_passes(translation *t, text *out);

// Writes a phase, its kernel and statements, with what the passes so far have found.
void plan_print(const translation *t, uint32_t phase, text *out);

// Checks what executors rely on; an error is a fault of a pass.
SPYRE_MUST_CHECK spyre_status plan_verify(const translation *t);

#endif
