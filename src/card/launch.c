// SPDX-License-Identifier: Apache-2.0
//
// A launch: kernel after kernel. The cores of a kernel are spread over the host's threads. A core
// that waits for the ring gives its thread back and is run again in the next round; a round in
// which no core takes a step is a deadlock. All cores meet between kernels, but for fused ones that
// join (local.h): a host thread takes one core through all of them, while its data are in the
// cache.
#include <stdlib.h>
#include <string.h>

#include "card/chain.h"
#include "card/check.h"
#include "card/exchange.h"
#include "card/fuse.h"
#include "card/local.h"
#include "card/machine.h"

// Below this much work other threads cost more than they save: when they must be woken, and when
// they are awake.
#define WAKING_WEIGHT_BYTES 131072.0
#define PARALLEL_WEIGHT_BYTES 16384.0

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

static core_run *start_core(launch *l, const plan_kernel *kernel, uint32_t core, bool fused)
{
    core_run *run = &l->owner->runs[core];
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
    run->state = ADVANCE_RAN;
    if (!fused) memset(run->token, 0, sizeof run->token);
    for (uint32_t q = 0; q < (fused ? 1u : ISA_QUEUE_COUNT); q++) {
        run->queue[q].next = 0;
        memcpy(run->queue[q].index, l->index, sizeof l->index);
    }
    return run;
}

static void run_core(void *context, size_t index, uint32_t worker)
{
    launch *l = context;
    core_run *run = &l->owner->runs[l->pending[index]];
    run->scratch = &l->owner->scratch[worker];
    core_execute(run, l->owner->mode);
}

static uint64_t steps_taken(const launch *l)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < l->pending_count; i++)
        steps += l->owner->runs[l->pending[i]].executed;
    return steps;
}

// The faulting core with the lowest number, so that the report does not depend on host threads.
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

static bool is_parallel(const launch *l, double weight_bytes)
{
    if (weight_bytes >= WAKING_WEIGHT_BYTES) return true;
    return weight_bytes >= PARALLEL_WEIGHT_BYTES && pool_awake(l->owner->workers);
}

static void run_all(launch *l, size_t count, pool_fn *fn, bool parallel)
{
    if (parallel) pool_run(l->owner->workers, count, fn, l);
    else for (size_t n = 0; n < count; n++) fn(l, n, 0);
}

static void list_cores(launch *l, uint32_t active)
{
    l->pending_count = 0;
    for (uint32_t core = 0; core < ISA_CORES; core++)
        if (active >> core & 1u) l->pending[l->pending_count++] = core;
}

// A kernel whose queues walk for themselves. Null, or the core that faulted.
static core_run *run_kernel(launch *l, const plan_kernel *kernel)
{
    bool parallel = !l->owner->check && is_parallel(l, kernel->weight_bytes);
    if (l->owner->check) check_begin_kernel(l->owner->check);
    list_cores(l, kernel->source->active_cores);
    for (uint32_t n = 0; n < l->pending_count; n++) start_core(l, kernel, l->pending[n], false);
    while (l->pending_count) {
        uint64_t before = steps_taken(l);
        run_all(l, l->pending_count, run_core, parallel);
        core_run *fault = first_fault(l);
        if (fault) return fault;
        bool stuck = steps_taken(l) == before;
        drop_finished(l);
        if (stuck && l->pending_count) {
            core_describe_wait(&l->owner->runs[l->pending[0]]);
            return &l->owner->runs[l->pending[0]];
        }
    }
    return NULL;
}

// --- Kernels without meeting

static bool is_exchange(const launch *l, const plan_kernel *kernel)
{
    return l->owner->mode == CARD_FAST && !l->owner->check &&
           (kernel->exchange || kernel->sends_later);
}

static bool is_fused(const launch *l, const plan_kernel *kernel)
{
    return l->owner->mode == CARD_FAST && !l->owner->check && l->program->lx_dead_after &&
           kernel->steps[ISA_QUEUE_SEQ] && fuse_allowed(kernel, l->arguments);
}

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
        core_run *run = start_core(l, kernel, core, true);
        run->scratch = &l->owner->scratch[worker];
        chain_run(run, kernel->chain, &l->group[k]);
        l->reached[core] = k;
    }
}

// A gang of cores through one fused kernel, or an exchange; false after a fault.
static bool run_gang(launch *l, uint32_t k, uint32_t first, uint32_t end, uint32_t worker)
{
    const plan_kernel *kernel = l->group[k].kernel;
    core_run *runs[ISA_CORES] = {NULL};
    uint32_t count = 0;
    for (uint32_t n = first; n < end; n++) {
        uint32_t core = l->pending[n];
        if (!(kernel->source->active_cores >> core & 1u)) continue;
        core_run *run = start_core(l, kernel, core, true);
        run->scratch = &l->owner->scratch[worker];
        l->reached[core] = k;
        if (kernel->exchange) exchange_run(run, kernel->exchange);
        else runs[count++] = run;
    }
    if (!count) return true;
    run_together(runs, count, &(matmul_host){.scratch = &l->owner->scratch[worker]});
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
    for (uint32_t k = 0; k < l->group_count; k++) {
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

static core_run *run_group(launch *l, const plan_phase *first, uint32_t count)
{
    uint32_t active = 0;
    double weight = 0;
    for (uint32_t k = 0; k < count; k++) {
        active |= first[k].kernel->source->active_cores;
        weight += first[k].kernel->weight_bytes;
    }
    l->group = first;
    l->group_count = count;
    list_cores(l, active);
    for (uint32_t n = 0; n < l->pending_count; n++)
        l->owner->runs[l->pending[n]].state = ADVANCE_RAN;
    choose_gangs(l, first, count);
    uint32_t gangs = (l->pending_count + l->gang - 1) / l->gang;
    run_all(l, gangs, run_through, is_parallel(l, weight));
    return earliest_fault(l);
}

// More cores read one operand than a thread takes along: threads would pack it again and again.
static bool shares_products(const launch *l, const plan_kernel *kernel)
{
    uint32_t cores = (uint32_t)__builtin_popcount(kernel->source->active_cores);
    return kernel->only_matmuls && is_parallel(l, kernel->weight_bytes) &&
           kernel->gang.cores > cores_a_thread(l, cores);
}

// The threads share the products of all cores, not the cores.
static core_run *run_products(launch *l, const plan_kernel *kernel)
{
    core_run *runs[ISA_CORES];
    list_cores(l, kernel->source->active_cores);
    for (uint32_t n = 0; n < l->pending_count; n++) {
        runs[n] = start_core(l, kernel, l->pending[n], true);
        runs[n]->scratch = l->owner->scratch;
    }
    const matmul_host host = {l->owner->workers, l->owner->scratch};
    run_together(runs, l->pending_count, &host);
    return first_fault(l);
}

// Runs the kernel of a phase and those that may follow without meeting; moves *next behind them.
static core_run *run_kernels(launch *l, const plan_phase *phase, uint32_t *next)
{
    bool exchanges = is_exchange(l, phase->kernel);
    if (exchanges && phase->kernel->sends_later) return NULL;
    if (!exchanges && !is_fused(l, phase->kernel)) return run_kernel(l, phase->kernel);
    if (shares_products(l, phase->kernel)) return run_products(l, phase->kernel);
    uint32_t count = 1;
    for (; l->may_join && *next < l->program->phases.count; (*next)++, count++) {
        const plan_phase *other = &l->program->phases.items[*next];
        if (other->kind != PHASE_KERNEL || !other->kernel->joins || !is_fused(l, other->kernel))
            break;
        if (shares_products(l, other->kernel)) break;
    }
    return run_group(l, phase, count);
}

static core_run *run_phases(launch *l)
{
    uint32_t next = 0;
    while (next < l->program->phases.count) {
        const plan_phase *phase = &l->program->phases.items[next++];
        core_run *fault = NULL;
        switch (phase->kind) {
        case PHASE_KERNEL: fault = run_kernels(l, phase, &next); break;
        case PHASE_LOOP: l->index[phase->depth] = 0; break;
        case PHASE_END_LOOP:
            if (++l->index[phase->depth] < phase->count) next = phase->body;
            break;
        }
        if (fault) return fault;
    }
    return NULL;
}

static spyre_status check_arguments(const launch *l, uint32_t count)
{
    const isa_program *program = l->program->program;
    if (count < program->arg_count) {
        return status_new(SPYRE_INVALID_ARGUMENT, "launch: %u arguments, the program has %u",
                          count, program->arg_count);
    }
    for (uint32_t k = 0; k < program->arg_count; k++) {
        const card_argument *argument = &l->arguments[k];
        if (!card_memory(l->owner, argument->base, argument->limit)) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "launch: argument %u, 0x%llx + %llu bytes, leaves its segment", k,
                              (unsigned long long)argument->base,
                              (unsigned long long)argument->limit);
        }
    }
    return NULL;
}

static spyre_status fault_status(const card_fault *fault)
{
    const char *open = fault->location[0] ? " (" : "", *close = fault->location[0] ? ")" : "";
    return status_new(SPYRE_DEVICE_FAULT,
                      "core %u, kernel %s%s%s%s, instruction %u, address 0x%llx: %s", fault->core,
                      fault->kernel, open, fault->location, close, fault->instruction,
                      (unsigned long long)fault->address, fault->text);
}

spyre_status card_launch(card *c, card_program *program, const card_argument *arguments,
                         uint32_t arg_count, card_fault *out_fault)
{
    launch l = {.owner = c, .program = program, .arguments = arguments};
    TRY(check_arguments(&l, arg_count));
    l.may_join = local_arguments_apart(program, arguments);
    if (c->wipe_each_launch) card_wipe_lx(c);
    core_run *fault = run_phases(&l);
    uint32_t sender, receiver;
    bool left = ring_clear(c->messages, &sender, &receiver);
    if (c->check) check_end_launch(c->check);
    if (c->check && program->lx_dead_after) check_wipe_lx(c->check);
    if (fault) {
        if (fault->lacks_memory) return status_no_memory();
        if (out_fault) *out_fault = fault->fault;
        return fault_status(&fault->fault);
    }
    if (left) {
        return status_new(SPYRE_DEVICE_FAULT,
                          "core %u never received a ring message that core %u sent", receiver,
                          sender);
    }
    return NULL;
}
