// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "card/launch/launch.h"

// Below this much work other threads cost more than they save: when they must be woken, and when
// they are awake.
#define WAKING_WEIGHT_BYTES 131072.0
#define PARALLEL_WEIGHT_BYTES 16384.0

void launch_begin_run(launch *l, const plan_kernel *kernel, uint32_t core, bool fused,
                      core_run *run)
{
    run->owner = l->owner;
    run->program = l->program;
    run->kernel = kernel;
    run->arguments = l->arguments;
    run->parameters = kernel->source->parameters + (size_t)core * kernel->source->slot_count;
    run->lx = l->owner->lx + (size_t)core * ISA_LX_BYTES;
    run->core = core;
    run->executed = 0;
    run->fused = fused;
    run->gathers_matmuls = fused && kernel->has_matmul;
    run->matmul = NULL;
    run->through = NULL;
    run->state = ADVANCE_RAN;
    if (!fused) memset(run->token, 0, sizeof run->token);
    for (uint32_t q = 0; q < (fused ? 1u : ISA_QUEUE_COUNT); q++) {
        run->queue[q].next = 0;
        memcpy(run->queue[q].index, l->index, sizeof l->index);
    }
}

core_run *launch_start_core(launch *l, const plan_kernel *kernel, uint32_t core, bool fused)
{
    core_run *run = &l->owner->runs[core];
    launch_begin_run(l, kernel, core, fused, run);
    return run;
}

void launch_list_cores(launch *l, uint32_t active)
{
    l->pending_count = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (active >> core & 1u) l->pending[l->pending_count++] = core;
}

core_run *launch_first_fault(const launch *l)
{
    for (uint32_t i = 0; i < l->pending_count; i++) {
        core_run *run = &l->owner->runs[l->pending[i]];
        if (run->state == ADVANCE_FAULT) return run;
    }
    return NULL;
}

bool launch_is_parallel(const launch *l, double weight_bytes)
{
    if (weight_bytes >= WAKING_WEIGHT_BYTES) return true;
    return weight_bytes >= PARALLEL_WEIGHT_BYTES && pool_awake(l->owner->workers);
}

void launch_run_all(launch *l, size_t count, pool_fn *fn, bool parallel)
{
    if (parallel) pool_run(l->owner->workers, count, fn, l);
    else for (size_t n = 0; n < count; n++) fn(l, n, 0);
}
