// SPDX-License-Identifier: Apache-2.0
//
// All cores wait for each other before a kernel, unless no byte of memory that one core writes is
// touched by another core, in this kernel and in those since the last barrier. What messages copy
// from the LX of a sender must stay there until the next barrier.
#include "card/footprint/footprint.h"
#include "card/machine/messages.h"
#include "card/plan/pass.h"

typedef struct {
    const translation *t;
    bool open;                              // kernels since the last barrier may be followed
    footprint_list since, own;              // what they touch, and what the kernel does
    byte_range sent;                        // of LX, that other cores may still copy
} state;

static bool keeps_sent(const state *s, const plan_kernel *kernel)
{
    const byte_ranges *written = &s->t->lx.items[kernel->order].written;
    for (uint32_t n = 0; n < written->count; n++)
        if (ranges_overlap(written->items[n], s->sent)) return false;
    return true;
}

static bool conflicts(const footprint_list *a, const footprint_list *b)
{
    for (uint32_t n = 0; n < a->count; n++)
        for (uint32_t m = 0; m < b->count; m++)
            if (footprint_conflict(&a->items[n], &b->items[m])) return true;
    return false;
}

static spyre_status look_at(state *s, plan_kernel *kernel)
{
    const translation *t = s->t;
    bool candidate = (kernel->steps[ISA_QUEUE_SEQ] || kernel->messages) && !kernel->around.depth;
    footprint_list *own = &s->own;
    own->count = 0;
    if (candidate && kernel->composed) TRY(footprint_collect_steps(t->scratch, kernel, own));
    else if (candidate) TRY(footprint_collect(t->scratch, t->program, t->tiles, kernel, own));
    kernel->no_barrier = candidate && s->open && !kernel->messages && keeps_sent(s, kernel) &&
                         !conflicts(&s->since, own);
    if (!kernel->no_barrier) {
        s->since.count = 0;
        s->sent = kernel->messages ? kernel->messages->sent : (byte_range){0, 0};
    }
    s->open = candidate;
    for (uint32_t m = 0; m < own->count; m++) TRY(VEC_PUSH(t->scratch, &s->since, own->items[m]));
    return NULL;
}

spyre_status card_pass_remove_barriers(translation *t)
{
    state s = {.t = t};
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        const plan_phase *phase = &t->loaded->phases.items[n];
        if (phase->kind == PHASE_KERNEL) TRY(look_at(&s, phase->kernel));
        else s.open = false;
    }
    return NULL;
}
