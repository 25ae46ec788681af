// SPDX-License-Identifier: Apache-2.0
//
// A kernel by its queues: cores are spread over host threads. A core that waits for the ring gives
// its thread back and runs again in the next round; a round in which no core takes a step is a
// deadlock.
#include "card/launch/launch.h"
#include "card/machine/check.h"

static void run_core(void *context, size_t index, uint32_t worker)
{
    launch *l = context;
    core_run *run = &l->owner->runs[l->pending[index]];
    run->scratch = &l->owner->scratch[worker];
    core_execute(run, l->owner->mode);
}

static void begin_cores(launch *l, const plan_kernel *kernel)
{
    l->pending_count = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        if (!isa_is_active(kernel->source, core)) continue;
        launch_begin_run(l, kernel, core, false, &l->owner->runs[core]);
        l->pending[l->pending_count++] = core;
    }
}

static uint64_t steps_taken(const launch *l)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < l->pending_count; i++)
        steps += l->owner->runs[l->pending[i]].executed;
    return steps;
}

static core_run *first_fault(const launch *l)
{
    for (uint32_t i = 0; i < l->pending_count; i++) {
        core_run *run = &l->owner->runs[l->pending[i]];
        if (run->state == ADVANCE_FAULT) return run;
    }
    return NULL;
}

static void drop_finished(launch *l)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->pending_count; i++) {
        if (l->owner->runs[l->pending[i]].state != ADVANCE_DONE)
            l->pending[kept++] = l->pending[i];
    }
    l->pending_count = kept;
}

core_run *launch_run_queues(launch *l, const plan_kernel *kernel)
{
    checker *check = l->owner->check;
    if (check) check_begin_kernel(check);
    begin_cores(l, kernel);
    while (l->pending_count) {
        uint64_t before = steps_taken(l);
        launch_share(l, l->pending_count, run_core, check ? 0 : kernel->weight_bytes);
        core_run *fault = first_fault(l);
        if (fault || card_stops(l->owner)) return fault;
        bool stuck = steps_taken(l) == before;
        drop_finished(l);
        if (stuck && l->pending_count) {
            core_describe_wait(&l->owner->runs[l->pending[0]]);
            return &l->owner->runs[l->pending[0]];
        }
    }
    return NULL;
}
