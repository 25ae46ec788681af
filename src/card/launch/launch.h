// SPDX-License-Identifier: Apache-2.0
//
// A launch under way: what launch.c (stage after stage), run_card_queues.c and run_stage.c (the
// forms of execution) and launch_cores.c (cores and threads) share. Private to these.
#ifndef CARD_LAUNCH_H
#define CARD_LAUNCH_H

#include "card/machine.h"

typedef struct {
    card *owner;
    const card_program *program;
    const card_argument *arguments;
    bool by_tiles;                          // stages, not queues
    bool apart;                             // no argument that is stored to overlaps another
    uint32_t index[ISA_MAX_LOOPS];          // loops around kernels
    uint32_t pending[ISA_CORES];            // cores that are not done
    uint32_t pending_count;
    const plan_phase *first;                // of the stage
    const plan_stage *stage;
    bool divides_products;                  // host threads share them, not cores
    atomic_bool faulted;                    // a core of the stage; threads write nothing else here,
                                            // where all of them read
} launch;

// Lets `run` begin a kernel as a core, its list of tiles or its five queues.
void launch_begin_run(launch *l, const plan_kernel *kernel, uint32_t core, bool by_tiles,
                      core_run *run);

// True when so much work is worth more than one thread.
bool launch_is_parallel(const launch *l, double weight_bytes);

// fn(l, 0 .. count - 1, worker), on all threads when there is so much work.
void launch_share(launch *l, size_t count, pool_fn *fn, double weight_bytes);

// A kernel whose queues each walk for themselves. Null, or the core that faulted: the lowest, so
// that the report does not depend on host threads.
core_run *launch_run_queues(launch *l, const plan_kernel *kernel);

// All kernels of a stage that begins at a phase. Null, or the core that faulted: in the earliest
// kernel, the lowest, as if all cores had met before each kernel.
core_run *launch_run_stage(launch *l, const plan_phase *first, const plan_stage *stage);

#endif
