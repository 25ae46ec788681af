// SPDX-License-Identifier: Apache-2.0
//
// Kernels through which cores go without meeting, and what is divided otherwise than by cores.
#include "card/chain/spread.h"
#include "card/exchange/exchange.h"
#include "card/exchange/through.h"
#include "card/launch/launch.h"

// Cores through one fused kernel, their matmuls together; without ring and tokens only those make
// them stop.
static void run_together(core_run *const *runs, uint32_t count, const matmul_host *host)
{
    do {
        for (uint32_t n = 0; n < count; n++)
            if (runs[n]->state == ADVANCE_RAN || runs[n]->state == ADVANCE_BLOCKED)
                core_execute(runs[n], CARD_FAST);
    } while (batch_execute(runs, count, host));
}

// A gang of cores through kernels that one chain stands for, core by core.
static void run_chain(launch *l, uint32_t k, uint32_t first, uint32_t end, uint32_t worker)
{
    const plan_kernel *kernel = l->group[k].kernel;
    for (uint32_t n = first; n < end; n++) {
        uint32_t core = l->pending[n];
        if (!(kernel->source->active_cores >> core & 1u)) continue;
        core_run *run = launch_start_core(l, kernel, core, true);
        run->scratch = &l->owner->scratch[worker];
        chain_run(run, kernel->chain, &l->group[k], (chain_rows){0, kernel->chain->rows});
        l->reached[core] = k;
    }
}

// The exchange of a kernel of the group that need not copy.
static const through *through_of(const launch *l, uint32_t k)
{
    return k + 1 < l->group_count ? l->group[k].kernel->through : NULL;
}

// A gang of cores through one fused kernel, or an exchange; false after a fault.
static bool run_gang(launch *l, uint32_t k, uint32_t first, uint32_t end, uint32_t worker)
{
    const plan_kernel *kernel = l->group[k].kernel;
    core_run *runs[ISA_CORES] = {NULL};
    uint32_t count = 0;
    if (through_of(l, k)) return true;
    for (uint32_t n = first; n < end; n++) {
        uint32_t core = l->pending[n];
        if (!(kernel->source->active_cores >> core & 1u)) continue;
        core_run *run = launch_start_core(l, kernel, core, true);
        run->scratch = &l->owner->scratch[worker];
        l->reached[core] = k;
        if (k > 0) run->through = through_of(l, k - 1);
        if (kernel->exchange) exchange_run(run, kernel->exchange);
        else runs[count++] = run;
    }
    if (!count) return true;
    run_together(runs, count, &(matmul_host){NULL, &l->owner->scratch[worker], &l->owner->stop});
    for (uint32_t n = 0; n < count; n++)
        if (runs[n]->state == ADVANCE_FAULT) return false;
    return true;
}

// A gang of cores through all kernels of the group.
static void run_through(void *context, size_t index, uint32_t worker)
{
    launch *l = context;
    uint32_t first = (uint32_t)index * l->gang, end = first + l->gang;
    if (end > l->pending_count) end = l->pending_count;
    for (uint32_t k = 0; k < l->group_count && !card_stops(l->owner); k++) {
        const plan_kernel *kernel = l->group[k].kernel;
        if (kernel->chain && kernel->chain->kernels <= l->group_count - k) {
            run_chain(l, k, first, end, worker);
            k += kernel->chain->kernels - 1;
            continue;
        }
        if (!run_gang(l, k, first, end, worker)) return;
    }
}

static bool comes_before(const launch *l, uint32_t a, uint32_t b)
{
    return l->reached[a] != l->reached[b] ? l->reached[a] < l->reached[b] : a < b;
}

// The fault of the earliest kernel, of its lowest core, as if all cores had met before each kernel.
static core_run *earliest_fault(const launch *l)
{
    core_run *earliest = NULL;
    for (uint32_t n = 0; n < l->pending_count; n++) {
        core_run *run = &l->owner->runs[l->pending[n]];
        if (run->state != ADVANCE_FAULT) continue;
        if (!earliest || comes_before(l, run->core, earliest->core)) earliest = run;
    }
    return earliest;
}

static uint32_t cores_a_thread(const launch *l, uint32_t cores)
{
    uint32_t threads = pool_threads(l->owner->workers);
    return (cores + threads - 1) / threads;
}

// The cores of a kernel in its order, then the others.
static void put_first(launch *l, const plan_gang *gang, uint32_t active)
{
    uint32_t all = 0, count = 0;
    for (uint32_t n = 0; n < l->pending_count; n++) all |= 1u << l->pending[n];
    for (; active; active &= active - 1) {
        l->pending[count] = gang->order[count];
        all &= ~(1u << gang->order[count++]);
    }
    for (; all; all &= all - 1) l->pending[count++] = (uint32_t)__builtin_ctz(all);
}

// As many cores as gain from multiplying together, but something to do for every thread. A lone
// kernel leaves nothing in the cache for the next one: there all of a thread's cores go together.
static void choose_gangs(launch *l, const plan_phase *first, uint32_t count)
{
    uint32_t most = cores_a_thread(l, l->pending_count);
    l->gang = 1;
    for (uint32_t k = 0; k < count; k++) {
        const plan_kernel *kernel = first[k].kernel;
        uint32_t wish = kernel->has_matmul && count == 1 ? most : kernel->gang.cores;
        if (wish <= l->gang) continue;
        l->gang = wish;
        put_first(l, &kernel->gang, kernel->source->active_cores);
    }
    if (l->gang > most) l->gang = most;
}

bool launch_shares_rows(const launch *l, const plan_kernel *kernel)
{
    uint32_t active = kernel->source->active_cores;
    return kernel->chain && kernel->chain->divisible && (active & (active - 1)) == 0 &&
           launch_is_parallel(l, kernel->weight_bytes);
}

static void run_rows(void *context, size_t index, uint32_t worker)
{
    launch *l = context;
    const plan_kernel *kernel = l->group[0].kernel;
    const chain *c = kernel->chain;
    core_run run;
    launch_begin_run(l, kernel, l->pending[0], true, &run);
    run.scratch = &l->owner->scratch[worker];
    uint32_t first = (uint32_t)index * c->block, end = first + c->block;
    chain_run(&run, c, l->group, (chain_rows){first, end < c->rows ? end : c->rows});
}

core_run *launch_run_group(launch *l, const plan_phase *first, uint32_t count)
{
    uint32_t active = 0;
    double weight = 0;
    for (uint32_t k = 0; k < count; k++) {
        active |= first[k].kernel->source->active_cores;
        weight += first[k].kernel->weight_bytes;
    }
    l->group = first;
    l->group_count = count;
    launch_list_cores(l, active);
    for (uint32_t n = 0; n < l->pending_count; n++)
        l->owner->runs[l->pending[n]].state = ADVANCE_RAN;
    const chain *c = first->kernel->chain;
    if (launch_shares_rows(l, first->kernel) && c->kernels == count) {
        launch_run_all(l, (c->rows - 1) / c->block + 1, run_rows, true);
        return NULL;
    }
    choose_gangs(l, first, count);
    uint32_t gangs = (l->pending_count + l->gang - 1) / l->gang;
    launch_run_all(l, gangs, run_through, launch_is_parallel(l, weight));
    return earliest_fault(l);
}

bool launch_shares_products(const launch *l, const plan_kernel *kernel)
{
    uint32_t cores = (uint32_t)__builtin_popcount(kernel->source->active_cores);
    return kernel->only_matmuls && launch_is_parallel(l, kernel->weight_bytes) &&
           kernel->gang.cores > cores_a_thread(l, cores);
}

core_run *launch_run_products(launch *l, const plan_kernel *kernel)
{
    core_run *runs[ISA_CORES];
    launch_list_cores(l, kernel->source->active_cores);
    for (uint32_t n = 0; n < l->pending_count; n++) {
        runs[n] = launch_start_core(l, kernel, l->pending[n], true);
        runs[n]->scratch = l->owner->scratch;
    }
    const matmul_host host = {l->owner->workers, l->owner->scratch, &l->owner->stop};
    run_together(runs, l->pending_count, &host);
    return launch_first_fault(l);
}

// The rows of the first kernel that a core receives, their messages, and the chain behind.
static void run_spread_core(void *context, size_t index, uint32_t worker)
{
    launch *l = context;
    const plan_kernel *maker = l->group[0].kernel;
    const spread *s = maker->spread;
    const plan_kernel *taker = l->group[s->exchange].kernel;
    uint32_t core = l->pending[index];
    core_run run;
    launch_begin_run(l, maker, (uint32_t)__builtin_ctz(maker->source->active_cores), true, &run);
    run.scratch = &l->owner->scratch[worker];
    if (s->exchange > 0) chain_run(&run, maker->chain, l->group, s->rows[core]);
    if (taker->source->active_cores >> core & 1u)
        exchange_run(launch_start_core(l, taker, core, true), taker->exchange);
    run_chain(l, s->exchange + 1, (uint32_t)index, (uint32_t)index + 1, worker);
}

void launch_run_spread(launch *l, const plan_phase *phase)
{
    double weight = 0;
    for (uint32_t n = 0; n < phase->kernel->spread->phases; n++)
        weight += phase[n].kernel->weight_bytes;
    l->group = phase;
    launch_list_cores(l, phase->kernel->spread->cores);
    launch_run_all(l, l->pending_count, run_spread_core, launch_is_parallel(l, weight));
}
