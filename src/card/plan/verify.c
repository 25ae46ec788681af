// SPDX-License-Identifier: Apache-2.0
//
// What executors rely on, checked after every pass in debug builds and by tests: a fault here is
// one of the pass before, never of the program.
#include "card/plan/pass.h"
#include "card/row_fusion/row_fusion.h"

#define FAULT(kernel, ...) \
    return status_at(status_new(SPYRE_INTERNAL, __VA_ARGS__), "kernel %u", (kernel)->order)

// Loops close what they open, every step has what its kind needs, and the list ends.
static spyre_status verify_steps(const plan_kernel *kernel, isa_queue queue)
{
    const plan_step *steps = kernel->steps[queue];
    uint32_t count = kernel->step_count[queue], open[ISA_MAX_LOOPS];
    uint32_t depth = kernel->around.depth;
    if (!steps) return NULL;
    if (!count || steps[count - 1].kind != STEP_END) FAULT(kernel, "queue %u does not end", queue);
    for (uint32_t n = 0; n + 1 < count; n++) {
        const plan_step *s = &steps[n];
        bool fits = s->kind != STEP_END && (s->kind != STEP_EXECUTE || s->tile);
        if (s->kind == STEP_LOOP) fits = depth < ISA_MAX_LOOPS && s->depth == depth;
        if (fits && s->kind == STEP_LOOP) open[depth++] = n + 1;
        if (s->kind == STEP_END_LOOP) fits = depth > kernel->around.depth;
        if (fits && s->kind == STEP_END_LOOP) fits = s->body == open[--depth];
        if (!fits) FAULT(kernel, "queue %u, step %u is malformed", queue, n);
    }
    if (depth != kernel->around.depth) FAULT(kernel, "queue %u leaves a loop open", queue);
    return NULL;
}

static spyre_status verify_rows(const plan_phase *phase, uint32_t left)
{
    const plan_kernel *kernel = phase->kernel;
    const row_fusion *c = kernel->rows;
    if (!c) return NULL;
    if (c->kernels > left || !c->block || c->block > c->group || c->block > ROWS_MOST_ROWS ||
        c->rows % c->group)
        FAULT(kernel, "%u kernels of %u rows in groups of %u and blocks of %u", c->kernels,
              c->rows, c->group, c->block);
    for (uint32_t k = 1; k < c->kernels && !c->joined; k++)
        if (phase[k].kind != PHASE_KERNEL || !phase[k].kernel->no_barrier)
            FAULT(kernel, "its row fusion crosses a barrier");
    return NULL;
}

// Every action's kernel is one of the stage, and runs by what the action says.
static spyre_status verify_stage(const plan_phase *phase, uint32_t left)
{
    const plan_stage *s = phase->stage;
    if (!s) return NULL;
    uint32_t cores = (uint32_t)__builtin_popcount(s->cores);
    if (s->kernels > left || !s->group.cores || s->group.cores > cores)
        FAULT(phase->kernel, "stage of %u kernels and %u cores", s->kernels, s->group.cores);
    for (uint32_t n = 0; n < s->actions.count; n++) {
        const plan_action *a = &s->actions.items[n];
        const plan_kernel *kernel = a->first < s->kernels ? phase[a->first].kernel : NULL;
        bool fits = kernel && (a->kind != ACTION_TILES || kernel->steps[ISA_QUEUE_SEQ]) &&
                    (a->kind != ACTION_ROWS || kernel->rows) &&
                    (a->kind != ACTION_COPIES || kernel->messages);
        if (!fits) FAULT(phase->kernel, "action %u of its stage has nothing to run", n);
    }
    return NULL;
}

spyre_status plan_verify(const translation *t)
{
    const card_program *p = t->loaded;
    for (uint32_t n = 0; n < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (phase->kind == PHASE_END_LOOP && phase->body > n)
            return status_new(SPYRE_INTERNAL, "phase %u closes a loop behind it", n);
        if (!phase->kernel) continue;
        for (isa_queue q = ISA_QUEUE_SEQ; q < ISA_QUEUE_COUNT; q++)
            TRY(verify_steps(phase->kernel, q));
        TRY(verify_rows(phase, p->phases.count - n));
        TRY(verify_stage(phase, p->phases.count - n));
    }
    return NULL;
}
