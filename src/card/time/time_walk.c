// SPDX-License-Identifier: Apache-2.0
//
// The walk through a kernel: at every event each queue goes as far as it gets without time, then
// time advances to the next end of an instruction.
//
// Memory is one resource: each transfer under way gets an equal part of it.
#include <math.h>

#include "card/time/time.h"

// Walks that find no steady state end here and are estimated.
#define MOST_STEPS 2000000u

// Shorter than any instruction, longer than a rounding error.
#define RESOLUTION_US 1e-12

typedef struct {
    time_walk base;
    uint64_t steps;
} walk;

static const time_step *step_of(const walk *w, const time_core *core, uint32_t q)
{
    return &w->base.kernel->steps[q].items[core->queue[q].at];
}

static uint32_t peer_of(const walk *w, const time_core *core, const time_step *step)
{
    return isa_peer(w->base.kernel->source, core->number, step->token);
}

// --- Steps without time

// A message that the receiver waited for arrives while it is sent; one that waited is copied.
static bool start(walk *w, time_core *core, uint32_t q, const time_step *step)
{
    time_queue *queue = &core->queue[q];
    queue->remaining_us = step->cost.us;
    if (step->cost.kind == TIME_RECEIVE) {
        uint32_t peer = peer_of(w, core, step);
        if (w->base.messages[peer][core->number] == 0) {
            queue->waited = true;
            return false;
        }
        w->base.messages[peer][core->number]--;
        if (queue->waited) queue->remaining_us = time_hops(peer, core->number) * RING_HOP / CLOCK;
        queue->waited = false;
    }
    queue->active = true;
    return true;
}

static void next_iteration(walk *w, const time_core *core, uint32_t q, const time_step *step)
{
    bool leads = core == w->base.cores && w->base.kernel->loops.items[step->loop].leader == q;
    if (!leads || !w->base.steady) return;
    if (step->kind == TIME_LOOP) time_steady_enter(w->base.steady, step->loop);
    else time_steady_mark(w->base.steady, step->loop);
}

// True when the queue moved on.
static bool settle_step(walk *w, time_core *core, uint32_t q)
{
    time_queue *queue = &core->queue[q];
    const time_step *step = step_of(w, core, q);
    const time_loop *loop =
        step->loop == TIME_NO_LOOP ? NULL : &w->base.kernel->loops.items[step->loop];
    switch (step->kind) {
    case TIME_END: return false;
    case TIME_EXECUTE: return start(w, core, q, step);
    case TIME_WAIT:
        if (core->token[step->token] == 0) return false;
        core->token[step->token]--;
        break;
    case TIME_SIGNAL: core->token[step->token]++; break;
    case TIME_LOOP:
        queue->index[loop->depth] = 0;
        next_iteration(w, core, q, step);
        break;
    case TIME_END_LOOP:
        if (++queue->index[loop->depth] == loop->count) break;
        next_iteration(w, core, q, step);
        queue->at = step->body;
        return true;
    }
    queue->at++;
    return true;
}

static void settle(walk *w)
{
    for (bool moved = true; moved && w->steps < MOST_STEPS;) {
        moved = false;
        for (uint32_t c = 0; c < w->base.kernel->core_count; c++)
            for (uint32_t q = 0; q < TIME_QUEUES; q++)
                while (!w->base.cores[c].queue[q].active && w->steps < MOST_STEPS &&
                       settle_step(w, &w->base.cores[c], q)) {
                    moved = true;
                    w->steps++;
                }
    }
}

// --- Time

// What one transfer progresses a microsecond.
static double transfer_rate(const walk *w)
{
    double transfers = 0;
    for (uint32_t c = 0; c < w->base.kernel->core_count; c++) {
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            if (!w->base.cores[c].queue[q].active) continue;
            time_kind kind = step_of(w, &w->base.cores[c], q)->cost.kind;
            if (kind == TIME_READ || kind == TIME_WRITE) transfers += w->base.kernel->weight;
        }
    }
    return transfers > 0 ? 1 / transfers : 0;
}

static double rate_of(const time_step *step, double transfer)
{
    return step->cost.kind == TIME_READ || step->cost.kind == TIME_WRITE ? transfer : 1;
}

static void finish(walk *w, time_core *core, uint32_t q)
{
    const time_step *step = step_of(w, core, q);
    core->queue[q].active = false;
    core->queue[q].remaining_us = 0;
    core->queue[q].at++;
    if (step->cost.kind == TIME_SEND && w->base.kernel->receives)
        w->base.messages[core->number][peer_of(w, core, step)]++;
}

// The share of the cores whose PT or SFP is at work.
static double computing_share(const walk *w)
{
    uint32_t computing = 0;
    for (uint32_t c = 0; c < w->base.kernel->core_count; c++) {
        bool works = false;
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            isa_queue queue = time_queue_of(q);
            bool computes = queue == ISA_QUEUE_PT || queue == ISA_QUEUE_SFP;
            works |= computes && w->base.cores[c].queue[q].active;
        }
        computing += works;
    }
    return (double)computing / w->base.kernel->core_count;
}

// To the next end of an instruction; false when none is under way.
static bool advance(walk *w)
{
    double transfer = transfer_rate(w), nearest = INFINITY;
    for (uint32_t c = 0; c < w->base.kernel->core_count; c++)
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            const time_queue *queue = &w->base.cores[c].queue[q];
            if (!queue->active) continue;
            double rate = rate_of(step_of(w, &w->base.cores[c], q), transfer);
            nearest = fmin(nearest, queue->remaining_us / rate);
        }
    if (nearest == INFINITY) return false;
    w->base.us += nearest;
    if (transfer > 0) w->base.memory_us += nearest;
    w->base.compute_us += nearest * computing_share(w);
    for (uint32_t c = 0; c < w->base.kernel->core_count; c++)
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            time_queue *queue = &w->base.cores[c].queue[q];
            if (!queue->active) continue;
            double rate = rate_of(step_of(w, &w->base.cores[c], q), transfer);
            queue->remaining_us -= rate * nearest;
            if (queue->remaining_us <= rate * (nearest * 1e-12 + RESOLUTION_US))
                finish(w, &w->base.cores[c], q);
        }
    return true;
}

// --- Ends

static spyre_status describe_wait(const walk *w)
{
    for (uint32_t c = 0; c < w->base.kernel->core_count; c++) {
        for (uint32_t q = 0; q < TIME_QUEUES; q++) {
            const time_core *core = &w->base.cores[c];
            const time_step *step = step_of(w, core, q);
            if (step->kind == TIME_END) continue;
            if (step->kind == TIME_WAIT)
                return status_new(SPYRE_DEVICE_FAULT,
                                  "kernel %s, core %u, instruction %u: deadlock: queue %s waits "
                                  "for token %u", w->base.kernel->source->name, core->number,
                                  step->instruction, isa_queue_name(time_queue_of(q)),
                                  step->token);
            return status_new(SPYRE_DEVICE_FAULT,
                              "kernel %s, core %u, instruction %u: deadlock: nothing arrives from "
                              "core %u", w->base.kernel->source->name, core->number,
                              step->instruction, peer_of(w, core, step));
        }
    }
    return NULL;
}

static double queue_us(const time_kernel *kernel, uint32_t q, bool memory)
{
    double us = 0;
    for (uint32_t n = 0; n < kernel->steps[q].count; n++) {
        const time_step *step = &kernel->steps[q].items[n];
        bool transfers = step->cost.kind == TIME_READ || step->cost.kind == TIME_WRITE;
        if (transfers == memory) us += step->cost.us * step->times;
    }
    return us;
}

// The busiest resource alone: no walk could be shorter.
static void estimate(const time_kernel *kernel, time_result *out)
{
    double memory = 0, most = 0, compute = 0;
    for (uint32_t q = 0; q < TIME_QUEUES; q++) {
        double us = queue_us(kernel, q, false);
        isa_queue queue = time_queue_of(q);
        memory += queue_us(kernel, q, true) * kernel->weight * kernel->core_count;
        most = fmax(most, us);
        if (queue == ISA_QUEUE_PT || queue == ISA_QUEUE_SFP) compute = fmax(compute, us);
    }
    *out = (time_result){fmax(memory, most), memory, compute, true};
}

static void place_cores(const time_kernel *kernel, time_core *cores)
{
    uint32_t n = 0;
    for (uint32_t core = 0; core < ISA_CORES && n < kernel->core_count; core++)
        if (isa_is_active(kernel->source, core)) cores[n++].number = core;
}

spyre_status time_kernel_run(arena *memory, const time_kernel *kernel, const time_options *options,
                             time_messages messages, time_result *out)
{
    walk w = {.base = {.kernel = kernel, .messages = messages}};
    w.base.cores = ARENA_NEW(memory, time_core, kernel->core_count);
    TRY_ALLOC(w.base.cores);
    place_cores(kernel, w.base.cores);
    if (!options->every_iteration) TRY(time_steady_create(memory, kernel, &w.base.steady));
    do {
        settle(&w);
        if (w.base.steady) time_steady_skip(&w.base);
        if (w.steps >= MOST_STEPS) {
            estimate(kernel, out);
            return NULL;
        }
    } while (advance(&w));
    *out = (time_result){.us = w.base.us, .memory_us = w.base.memory_us,
                         .compute_us = w.base.compute_us};
    return describe_wait(&w);
}
