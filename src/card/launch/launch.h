// SPDX-License-Identifier: Apache-2.0
//
// A launch under way: what launch.c (kernel after kernel), launch_group.c (kernels that run without
// meeting) and launch_cores.c (cores and threads) share. Private to these.
#ifndef CARD_LAUNCH_H
#define CARD_LAUNCH_H

#include "card/chain/chain.h"
#include "card/machine.h"

typedef struct {
    card *owner;
    const card_program *program;
    const card_argument *arguments;
    uint32_t index[ISA_MAX_LOOPS];          // loops around kernels
    uint32_t pending[ISA_CORES];            // cores that are not done
    uint32_t pending_count;
    uint32_t gang;                          // cores a host thread takes along together
    bool may_join;                          // no argument that is stored to overlaps another
    const plan_phase *group;                // kernels that run without meeting
    uint32_t group_count;
    uint32_t reached[ISA_CORES];            // how far in the group each core came
} launch;

// --- Cores and threads (launch_cores.c)

// Lets `run` begin a kernel as a core; fused: as its one list of steps.
void launch_begin_run(launch *l, const plan_kernel *kernel, uint32_t core, bool fused,
                      core_run *run);

// The same for the card's own run of the core, which it returns.
core_run *launch_start_core(launch *l, const plan_kernel *kernel, uint32_t core, bool fused);

// Makes cores pending: bit n, core n.
void launch_list_cores(launch *l, uint32_t active);

// The faulting core with the lowest number, so that the report does not depend on host threads.
core_run *launch_first_fault(const launch *l);

// True when so much work is worth more than one thread.
bool launch_is_parallel(const launch *l, double weight_bytes);

// fn(l, 0 .. count - 1, worker), on all threads or on this one.
void launch_run_all(launch *l, size_t count, pool_fn *fn, bool parallel);

// --- Without meeting (launch_group.c). Null, or the run that faulted

// Kernels of phases that cores run through one after another.
core_run *launch_run_group(launch *l, const plan_phase *first, uint32_t count);

// More cores read one operand of a kernel of products than a thread takes along: threads would pack
// it again and again. They share the products of all cores then, not the cores.
bool launch_shares_products(const launch *l, const plan_kernel *kernel);
core_run *launch_run_products(launch *l, const plan_kernel *kernel);

// One core alone leaves the other threads nothing to do, unless they take some of its rows. A group
// of the kernels of its chain alone does that.
bool launch_shares_rows(const launch *l, const plan_kernel *kernel);

// All phases of the kernel's spread (spread.h).
void launch_run_spread(launch *l, const plan_phase *phase);

#endif
