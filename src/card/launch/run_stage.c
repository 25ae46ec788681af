// SPDX-License-Identifier: Apache-2.0
//
// A stage by its units: a host thread takes one group of cores through all actions, while its data
// are in the cache, then the next group.
#include "card/launch/launch.h"
#include "card/machine/messages.h"
#include "card/plan.h"
#include "card/row_fusion/run/run_rows.h"

// Cores [first, end) of the stage's order.
typedef struct {
    uint32_t first, end, worker;
} unit;

// Cores through one list of tiles, their matmuls together; without ring and tokens only those make
// them stop.
static bool run_tiles(launch *l, core_run *const *runs, uint32_t count, uint32_t worker)
{
    const card *c = l->owner;
    pool *workers = l->divides_products ? c->workers : NULL;
    const matmul_host host = {workers, workers ? c->scratch : &c->scratch[worker], &c->stop};
    do {
        for (uint32_t n = 0; n < count; n++)
            if (runs[n]->state == ADVANCE_RAN || runs[n]->state == ADVANCE_BLOCKED)
                core_execute(runs[n], CARD_FAST);
    } while (batch_execute(runs, count, &host));
    for (uint32_t n = 0; n < count; n++)
        if (runs[n]->state == ADVANCE_FAULT) return false;
    return true;
}

// A share of the rows of the one core that has them, or of those of all cores.
static void run_share(launch *l, const plan_action *a, unit u)
{
    const plan_kernel *kernel = l->first[a->first].kernel;
    core_run run;
    for (uint32_t n = u.first; n < u.end; n++) {
        launch_begin_run(l, kernel, (uint32_t)__builtin_ctz(kernel->source->active_cores), true,
                         &run);
        run.scratch = &l->owner->scratch[u.worker];
        if (kernel->rows->joined) run.lx = l->owner->lx;
        rows_run(&run, kernel->rows, &l->first[a->first], a->shares[l->stage->group.order[n]]);
    }
}

// Parts of what one core does; their bytes lie inside of the arguments, as all that the kernel
// touches does.
static void run_parts(launch *l, const plan_action *a, unit u)
{
    core_run run;
    for (uint32_t n = u.first; n < u.end; n++) {
        const plan_kernel *part = a->parts[l->stage->group.order[n]];
        launch_begin_run(l, part, (uint32_t)__builtin_ctz(part->source->active_cores), true, &run);
        run.scratch = &l->owner->scratch[u.worker];
        core_execute(&run, CARD_FAST);
    }
}

// The joined steps of the unit's cores, by the first that takes part; false when there is a fault,
// which the cores meet again one by one.
static bool run_joined(launch *l, const plan_action *a, unit u)
{
    const plan_kernel *kernel = l->first[a->first].kernel;
    uint32_t n = u.first;
    while (n < u.end && !isa_is_active(kernel->source, l->stage->group.order[n])) n++;
    if (n == u.end) return true;
    core_run *run = &l->owner->runs[l->stage->group.order[n]];
    launch_begin_run(l, kernel, l->stage->group.order[n], true, run);
    run->scratch = &l->owner->scratch[u.worker];
    for (uint32_t s = 0; s < a->joined.count; s++) {
        const plan_step *step = &a->joined.items[s];
        uint8_t *address[ISA_MAX_OPERANDS];
        if (!core_resolve(run, step, &run->queue[ISA_QUEUE_SEQ], address)) return false;
        tile_run(step->tile, address, run->scratch);
    }
    return true;
}

// The LX of the unit's host thread for the core at a place of the stage's order.
static uint8_t *private_lx(const launch *l, unit u, uint32_t at)
{
    const size_t slot = ISA_CORES + u.worker * l->stage->group.cores + (at - u.first);
    return l->owner->lx + slot * ISA_LX_BYTES;
}

// False after a fault.
static bool run_action(launch *l, const plan_action *a, unit u)
{
    const plan_kernel *kernel = l->first[a->first].kernel;
    if (a->joined.count && run_joined(l, a, u)) return true;
    core_run *runs[ISA_CORES];
    uint32_t count = 0;
    for (uint32_t n = u.first; n < u.end; n++) {
        uint32_t core = l->stage->group.order[n];
        if (!isa_is_active(kernel->source, core)) continue;
        core_run *run = runs[count++] = &l->owner->runs[core];
        launch_begin_run(l, kernel, core, true, run);
        run->scratch = &l->owner->scratch[u.worker];
        run->remote = a->remote;
        if (l->stage->private_lx) run->lx = private_lx(l, u, n);
        run->reached = a->first;
        if (a->kind == ACTION_COPIES) messages_run(run, kernel->messages);
        if (a->kind != ACTION_ROWS) continue;
        rows_run(run, kernel->rows, &l->first[a->first], (row_range){0, kernel->rows->rows});
    }
    return a->kind != ACTION_TILES || run_tiles(l, runs, count, u.worker);
}

static void run_unit(void *context, size_t index, uint32_t worker)
{
    launch *l = context;
    const plan_stage *stage = l->stage;
    uint32_t first = (uint32_t)index * stage->group.cores, end = first + stage->group.cores;
    uint32_t cores = (uint32_t)__builtin_popcount(stage->cores);
    const unit u = {first, end < cores ? end : cores, worker};
    for (uint32_t k = 0; k < stage->actions.count && !card_stops(l->owner); k++) {
        const plan_action *a = &stage->actions.items[k];
        if (a->shares) run_share(l, a, u);
        else if (a->parts) run_parts(l, a, u);
        else if (!run_action(l, a, u)) {
            atomic_store(&l->faulted, true);
            return;
        }
    }
}

static core_run *earliest_fault(const launch *l)
{
    core_run *earliest = NULL;
    for (uint32_t left = l->stage->cores; left; left &= left - 1) {
        uint32_t core = (uint32_t)__builtin_ctz(left);
        core_run *run = &l->owner->runs[core];
        if (run->state != ADVANCE_FAULT) continue;
        if (!earliest || run->reached < earliest->reached) earliest = run;
    }
    return earliest;
}

core_run *launch_run_stage(launch *l, const plan_phase *first, const plan_stage *stage)
{
    uint32_t cores = (uint32_t)__builtin_popcount(stage->cores);
    uint32_t units = (cores - 1) / stage->group.cores + 1;
    l->first = first;
    l->stage = stage;
    l->owner->stages++;
    l->divides_products = stage->divides_products && units == 1 &&
                          launch_is_parallel(l, stage->weight_bytes);
    launch_share(l, units, run_unit, stage->weight_bytes);
    // What the threads have written of their cores is looked at where there is a fault only.
    return atomic_load(&l->faulted) ? earliest_fault(l) : NULL;
}
