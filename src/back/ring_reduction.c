// SPDX-License-Identifier: Apache-2.0
#include "back/ring_reduction.h"

// --- Who is who

static bool same_chain(const nest *n, uint32_t a, uint32_t b)
{
    uint8_t(*slice)[BUNDLE_MAX_DIMS] = n->step->cores->core_slice;
    for (uint32_t d = 0; d < n->step->dim_count; d++)
        if (!n->reduced[d] && slice[a][d] != slice[b][d]) return false;
    return true;
}

static bool earlier(const nest *n, uint32_t a, uint32_t b)
{
    uint8_t(*slice)[BUNDLE_MAX_DIMS] = n->step->cores->core_slice;
    for (uint32_t d = 0; d < n->step->dim_count; d++)
        if (n->reduced[d] && slice[a][d] != slice[b][d]) return slice[a][d] < slice[b][d];
    return false;
}

// Some cores have the same slices of all dims but reduced ones.
static bool has_chains(const nest *n)
{
    for (uint32_t d = 0; d < n->step->dim_count; d++)
        if (n->reduced[d] && n->step->cores->slices[d] > 1) return true;
    return false;
}

// The nearest core of the chain before `core`, or after it; -1 at the ends.
static int32_t neighbour(const nest *n, uint32_t core, bool before)
{
    int32_t best = -1;
    for (uint32_t c = 0; c < n->step->cores->core_count; c++) {
        if (c == core || !same_chain(n, core, c)) continue;
        bool beside = before ? earlier(n, c, core) : earlier(n, core, c);
        if (!beside) continue;
        bool nearer =
            best < 0 || (before ? earlier(n, (uint32_t)best, c) : earlier(n, c, (uint32_t)best));
        if (nearer) best = (int32_t)c;
    }
    return best;
}

static spyre_status check_extents(const nest *n)
{
    for (uint32_t c = 1; c < n->class_count; c++)
        for (uint32_t d = 0; d < n->dim_count; d++)
            if (!n->reduced[d] && n->classes[c].size[d] != n->classes[0].size[d])
                return status_new(SPYRE_UNSUPPORTED,
                                  "dim %s is divided unevenly while cores share an output",
                                  n->step->dim_name[d]);
    return NULL;
}

spyre_status ring_reduction_build(nest *n, ring_reduction *out)
{
    ring_reduction s = {.previous_slot = (uint16_t)(n->slot_count - 2),
                        .next_slot = (uint16_t)(n->slot_count - 1)};
    const bool chains = has_chains(n);
    for (uint32_t core = 0; core < n->step->cores->core_count; core++) {
        const int32_t previous = chains ? neighbour(n, core, true) : -1;
        const int32_t next = chains ? neighbour(n, core, false) : -1;
        int64_t *row = n->parameters + core * n->slot_count;
        row[s.previous_slot] = previous < 0 ? 0 : previous;
        row[s.next_slot] = next < 0 ? 0 : next;
        if (previous >= 0 && next >= 0)
            s.middle |= 1u << core;
        else if (next >= 0)
            s.first |= 1u << core;
        else
            s.last |= 1u << core;
    }
    s.first &= n->all_cores, s.middle &= n->all_cores, s.last &= n->all_cores;
    s.needed = s.first != 0;
    *out = s;
    return s.needed ? check_extents(n) : NULL;
}

// --- The chain

typedef struct {
    const ring_reduction_plan *plan;
    const box *b;
    const place_axes *axes;
    const place *accumulator, *received;
    uint32_t parts;
} chain;

static spyre_status message(const chain *c, isa_opcode opcode, uint16_t slot, const place *parts)
{
    isa_instruction i = {.opcode = opcode, .token = slot};
    for (uint32_t p = 0; p < c->parts; p++) {
        place_order order = place_sorted(&parts[p], c->axes);
        TRY(emit_tile(c->plan->e, &i, c->axes, &order, (const place *const[]){&parts[p]}, 1));
    }
    return NULL;
}

// accumulator = received (of the earlier slices) combined with the accumulator.
static spyre_status receive_and_combine(const chain *c)
{
    emitter *e = c->plan->e;
    TRY(message(c, ISA_RECEIVE, c->plan->chain.previous_slot, c->received));
    TRY(emit_handover(e, ISA_QUEUE_RING, ISA_QUEUE_SFP, TOKEN_RING_FULL));
    for (uint32_t p = 0; p < c->parts; p++) {
        const place *own = &c->accumulator[p];
        TRY(emit_vector(e, c->plan->combine, NULL, c->axes,
                        (const place *const[]){own, &c->received[p], own}, 3));
    }
    return NULL;
}

static spyre_status forward_kernels(const chain *c)
{
    const ring_reduction_plan *plan = c->plan;
    emitter *e = plan->e;
    TRY(emit_kernel(e, plan->n, plan->chain.first));
    TRY(message(c, ISA_SEND, plan->chain.next_slot, c->accumulator));
    TRY(emit_end_kernel(e));
    if (!plan->chain.middle) return NULL;
    TRY(emit_kernel(e, plan->n, plan->chain.middle));
    TRY(receive_and_combine(c));
    TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_RING, TOKEN_ACCUMULATOR_DONE));
    TRY(message(c, ISA_SEND, plan->chain.next_slot, c->accumulator));
    return emit_end_kernel(e);
}

static spyre_status last_kernel(const chain *c)
{
    const ring_reduction_plan *plan = c->plan;
    emitter *e = plan->e;
    TRY(emit_kernel(e, plan->n, plan->chain.last));
    TRY(receive_and_combine(c));
    if (plan->everyone) {
        TRY(emit_handover(e, ISA_QUEUE_SFP, ISA_QUEUE_RING, TOKEN_ACCUMULATOR_DONE));
        TRY(message(c, ISA_SEND, plan->chain.previous_slot, c->accumulator));
        TRY(emit_handover(e, ISA_QUEUE_RING, ISA_QUEUE_SFP, TOKEN_RING_FULL));
    }
    TRY(plan->finish(plan->context, c->b));
    return emit_end_kernel(e);
}

static spyre_status backward_kernel(const chain *c, uint32_t cores, bool passes_on)
{
    const ring_reduction_plan *plan = c->plan;
    emitter *e = plan->e;
    if (!cores) return NULL;
    TRY(emit_kernel(e, plan->n, cores));
    TRY(message(c, ISA_RECEIVE, plan->chain.next_slot, c->accumulator));
    if (passes_on) TRY(message(c, ISA_SEND, plan->chain.previous_slot, c->accumulator));
    TRY(emit_handover(e, ISA_QUEUE_RING, ISA_QUEUE_SFP, TOKEN_RING_FULL));
    TRY(plan->finish(plan->context, c->b));
    return emit_end_kernel(e);
}

spyre_status ring_reduction_emit(const ring_reduction_plan *plan, const box *b,
                                 const place_axes *axes, const place *accumulator,
                                 const place *received, uint32_t parts)
{
    chain c = {plan, b, axes, accumulator, received, parts};
    TRY(forward_kernels(&c));
    TRY(last_kernel(&c));
    if (!plan->everyone) return NULL;
    TRY(backward_kernel(&c, plan->chain.middle, true));
    return backward_kernel(&c, plan->chain.first, false);
}
