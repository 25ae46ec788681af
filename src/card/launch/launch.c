// SPDX-License-Identifier: Apache-2.0
//
// A launch: stage after stage, as the plan says. All cores meet between stages.
#include "card/launch/launch.h"

#include "card/footprint/footprint.h"
#include "card/machine/check.h"
#include "card/plan.h"
#include "card/row_fusion/row_fusion.h"

// A stage runs as planned when arguments lie apart and hold all that it touches.
static bool holds(const card_argument *arguments, const plan_phase *first)
{
    for (uint32_t k = 0; k < first->stage->kernels; k++)
        if (!tiles_inside(first[k].kernel, arguments)) return false;
    return true;
}

static bool by_tiles(const card *c, const card_program *program)
{
    return c->mode == CARD_FAST && !c->check && program->lx_dead_after;
}

bool card_goes_as_planned(const card *c, const card_program *program,
                          const card_argument *arguments)
{
    if (!by_tiles(c, program) || !footprint_arguments_apart(program, arguments)) return false;
    for (uint32_t n = 0; n < program->phases.count; n++) {
        const plan_phase *phase = &program->phases.items[n];
        if (phase->kind != PHASE_KERNEL) continue;
        if (!phase->stage || !holds(arguments, phase)) return false;
        n += phase->stage->kernels - 1;
    }
    return true;
}

// --- Halves

static bool touches(const plan_kernel *kernel, uint32_t argument)
{
    for (uint32_t n = 0; n < kernel->memory.count; n++)
        if (kernel->memory.items[n].arg == argument) return true;
    return false;
}

// The row fusion that does kernel `k` of a stage, or null.
static const row_fusion *fusion_of(const plan_phase *first, uint32_t k)
{
    const plan_stage *stage = first->stage;
    for (uint32_t n = 0; n < stage->actions.count; n++) {
        const plan_action *a = &stage->actions.items[n];
        const row_fusion *rows = first[a->first].kernel->rows;
        if (a->kind == ACTION_ROWS && k >= a->first && k - a->first < rows->kernels) return rows;
    }
    return NULL;
}

bool card_takes_halves(const card_program *program, uint32_t argument)
{
    const plan_phase *first = NULL;
    uint32_t end = 0;
    rows_uses uses = {.loads = false};
    for (uint32_t n = 0; n < program->phases.count; n++) {
        const plan_phase *phase = &program->phases.items[n];
        if (phase->kind != PHASE_KERNEL) continue;
        if (n >= end) {
            first = phase;
            end = n + (phase->stage ? phase->stage->kernels : 1);
        }
        if (!first->stage) return false;
        if (!touches(phase->kernel, argument)) continue;
        const row_fusion *rows = fusion_of(first, (uint32_t)(phase - first));
        if (!rows || !rows_takes_halves(rows, argument)) return false;
        rows_add_uses(rows, argument, &uses);
    }
    // IEEE_FP16 has fewer exponents: what is stored could be another number when it is loaded.
    return !uses.loads || !uses.stores;
}

// A kernel of a stage that does not run as planned.
static core_run *run_alone(launch *l, const plan_phase *phase)
{
    const plan_kernel *kernel = phase->kernel;
    plan_action action = {.kind = kernel->messages ? ACTION_COPIES : ACTION_TILES};
    plan_stage alone = {.kernels = 1,
                        .cores = kernel->source->active_cores,
                        .group = kernel->group,
                        .weight_bytes = kernel->weight_bytes,
                        .actions = {.items = &action, .count = 1}};
    if (kernel->sends_later) return NULL;
    if (!kernel->messages && !tiles_allowed(kernel, l->arguments))
        return launch_run_queues(l, kernel);
    return launch_run_stage(l, phase, &alone);
}

// The stage that begins at a phase; moves *next behind it.
static core_run *run_stage(launch *l, const plan_phase *phase, uint32_t *next)
{
    const plan_stage *stage = phase->stage;
    if (!l->by_tiles || !stage) return launch_run_queues(l, phase->kernel);
    *next += stage->kernels - 1;
    if (l->apart && holds(l->arguments, phase)) return launch_run_stage(l, phase, stage);
    core_run *fault = NULL;
    for (uint32_t k = 0; k < stage->kernels && !fault; k++) fault = run_alone(l, &phase[k]);
    return fault;
}

// Whether kernels that compose_copies has changed, and not those that it left out, are to run.
static bool runs_composed(const launch *l)
{
    const card_program *p = l->program;
    bool may = l->by_tiles && l->apart;
    for (uint32_t n = 0; n < p->phases.count && may; n++)
        may = !p->phases.items[n].stage || holds(l->arguments, &p->phases.items[n]);
    return may;
}

static core_run *run_phases(launch *l)
{
    const card_program *p = l->program;
    const bool before = p->uncomposed.count && !runs_composed(l);
    const plan_phase *phases = before ? p->uncomposed.items : p->phases.items;
    const uint32_t count = before ? p->uncomposed.count : p->phases.count;
    uint32_t next = 0;
    while (next < count && !card_stops(l->owner)) {
        const plan_phase *phase = &phases[next++];
        core_run *fault = NULL;
        switch (phase->kind) {
        case PHASE_KERNEL: fault = run_stage(l, phase, &next); break;
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
        if (argument->base >= CARD_HALVES) {
            if (card_takes_halves(l->program, k) &&
                card_goes_as_planned(l->owner, l->program, l->arguments))
                continue;
            return status_new(SPYRE_UNSUPPORTED, "launch: argument %u cannot be halves", k);
        }
        if (!card_memory(l->owner, argument->base, argument->limit)) {
            return status_new(SPYRE_INVALID_ARGUMENT,
                              "launch: argument %u, 0x%llx + %llu bytes, leaves its segment", k,
                              (unsigned long long)argument->base,
                              (unsigned long long)argument->limit);
        }
    }
    return NULL;
}

// The next launch finds no core in a fault.
static spyre_status end_by_fault(card *c, const core_run *fault, card_fault *out_fault)
{
    for (uint32_t core = 0; core < ISA_CORES; core++) c->runs[core].state = ADVANCE_RAN;
    if (fault->lacks_memory) return status_no_memory();
    if (out_fault) *out_fault = fault->fault;
    return core_fault_status(&fault->fault);
}

spyre_status card_launch(card *c, card_program *program, const card_argument *arguments,
                         uint32_t arg_count, card_fault *out_fault)
{
    launch l = {.owner = c, .program = program, .arguments = arguments};
    TRY(check_arguments(&l, arg_count));
    l.apart = footprint_arguments_apart(program, arguments);
    l.by_tiles = by_tiles(c, program);
    if (c->wipe_each_launch) card_wipe_lx(c);
    core_run *fault = run_phases(&l);
    uint32_t sender, receiver;
    bool left = ring_clear(c->messages, &sender, &receiver);
    if (c->check) check_end_launch(c->check);
    if (c->check && program->lx_dead_after) check_wipe_lx(c->check);
    if (fault) return end_by_fault(c, fault, out_fault);
    if (card_stops(c)) return status_new(SPYRE_CANCELLED, "the launch was cancelled");
    if (left) {
        return status_new(SPYRE_DEVICE_FAULT,
                          "core %u never received a ring message that core %u sent", receiver,
                          sender);
    }
    return NULL;
}
