// SPDX-License-Identifier: Apache-2.0
//
// A launch: kernel after kernel. The cores of a kernel are spread over the host's threads. A core
// that waits for the ring gives its thread back and is run again in the next round; a round in
// which no core takes a step is a deadlock. All cores meet between kernels, but for fused ones that
// join (local.h): a host thread takes one core through all of them, while its data are in the
// cache.
#include <string.h>

#include "card/chain/spread.h"
#include "card/exchange/exchange.h"
#include "card/exchange/local.h"
#include "card/fuse/fuse.h"
#include "card/launch/launch.h"
#include "card/machine/check.h"

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

static void drop_finished(launch *l)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->pending_count; i++) {
        if (l->owner->runs[l->pending[i]].state != ADVANCE_DONE)
            l->pending[kept++] = l->pending[i];
    }
    l->pending_count = kept;
}

// A kernel whose queues walk for themselves. Null, or the core that faulted.
static core_run *run_kernel(launch *l, const plan_kernel *kernel)
{
    bool parallel = !l->owner->check && launch_is_parallel(l, kernel->weight_bytes);
    if (l->owner->check) check_begin_kernel(l->owner->check);
    launch_list_cores(l, kernel->source->active_cores);
    for (uint32_t n = 0; n < l->pending_count; n++)
        launch_start_core(l, kernel, l->pending[n], false);
    while (l->pending_count) {
        uint64_t before = steps_taken(l);
        launch_run_all(l, l->pending_count, run_core, parallel);
        if (card_stops(l->owner)) return launch_first_fault(l);
        core_run *fault = launch_first_fault(l);
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

static bool may_spread(const launch *l, const plan_phase *phase)
{
    const spread *s = phase->kernel->spread;
    if (!s || !l->may_join) return false;
    for (uint32_t n = 0; n < s->phases; n++)
        if (!is_exchange(l, phase[n].kernel) && !is_fused(l, phase[n].kernel)) return false;
    return true;
}

// Whether a phase's kernel goes with those before it. `apart`: not when threads share its rows.
static bool continues(const launch *l, const plan_phase *phase, bool apart)
{
    if (!l->may_join || phase->kind != PHASE_KERNEL || !phase->kernel->joins) return false;
    if (apart && launch_shares_rows(l, phase->kernel)) return false;
    return is_fused(l, phase->kernel) && !launch_shares_products(l, phase->kernel);
}

// Runs the kernel of a phase and those that may follow without meeting; moves *next behind them.
static core_run *run_kernels(launch *l, const plan_phase *phase, uint32_t *next)
{
    if (may_spread(l, phase)) {
        launch_run_spread(l, phase);
        *next += phase->kernel->spread->phases - 1;
        return NULL;
    }
    bool exchanges = is_exchange(l, phase->kernel);
    if (exchanges && phase->kernel->sends_later) return NULL;
    if (!exchanges && !is_fused(l, phase->kernel)) return run_kernel(l, phase->kernel);
    if (launch_shares_products(l, phase->kernel)) return launch_run_products(l, phase->kernel);
    bool rows = launch_shares_rows(l, phase->kernel);
    const uint32_t most = rows ? phase->kernel->chain->kernels : UINT32_MAX;
    uint32_t count = 1;
    while (count < most && *next < l->program->phases.count &&
           continues(l, &l->program->phases.items[*next], !rows))
        (*next)++, count++;
    return launch_run_group(l, phase, count);
}

static core_run *run_phases(launch *l)
{
    uint32_t next = 0;
    while (next < l->program->phases.count && !card_stops(l->owner)) {
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
    if (card_stops(c)) return status_new(SPYRE_CANCELLED, "the launch was cancelled");
    if (left) {
        return status_new(SPYRE_DEVICE_FAULT,
                          "core %u never received a ring message that core %u sent", receiver,
                          sender);
    }
    return NULL;
}
