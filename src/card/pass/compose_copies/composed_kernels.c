// SPDX-License-Identifier: Apache-2.0
//
// Kernels with what compose_copies has found: tiles that read elsewhere in the place of those that
// did not, without loops, and none that are dropped. A kernel of which a tile has several parts
// becomes one for each, so that row fusions and host threads may take the long one.
#include "card/footprint/footprint.h"
#include "card/pass/compose_copies/compose.h"

// The kernel's parameters with those added.
static spyre_status add_slots(composer *c, composed_kernel *k, plan_kernel *out)
{
    isa_kernel *source;
    int64_t *parameters;
    const uint32_t before = out->source->slot_count, count = before + k->slots.count;
    if (!k->slots.count) return NULL;
    TRY_NEW(c->memory, source, 1);
    TRY_NEW(c->memory, parameters, (size_t)count * ISA_CORES);
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        int64_t *row = parameters + (size_t)core * count;
        for (uint32_t n = 0; n < count; n++)
            row[n] = n < before ? isa_parameter(out->source, core, n)
                                : k->slots.items[n - before][core];
    }
    *source = *out->source;
    source->slot_count = count;
    source->parameters = parameters;
    out->source = source;
    return NULL;
}

// Elsewhere, later passes are told, a kernel reads these bytes.
static spyre_status note_read(translation *t, const isa_operand *operand, byte_range bytes,
                              uint32_t at, plan_kernel *kernel)
{
    if (operand->space == ISA_SPACE_LX) {
        const lx_range r = {bytes, LX_WHOLE_STICKS};
        return VEC_PUSH(t->scratch, &t->lx.items[kernel->order].exposed, r);
    }
    const plan_memory entry = {.arg = operand->arg, .low = bytes.low, .high = bytes.high,
                               .at = at, .twin = PLAN_NO_TWIN};
    TRY(VEC_PUSH(t->memory, &kernel->memory, entry));
    const temporary_read read = {kernel->order, operand->arg, bytes};
    return temporary_has(&t->temporary, operand->arg)
               ? VEC_PUSH(t->scratch, &t->temporary.reads, read)
               : NULL;
}

static spyre_status note_reads(translation *t, const plan_tile *tile, uint32_t at,
                               plan_kernel *kernel)
{
    const loop_nest none = {0};
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 1; o < i->operand_count; o++) {
        if (i->operand[o].space == ISA_SPACE_NUMBER) continue;
        const byte_range r = footprint_range(kernel->source, i, o, &none);
        TRY(note_read(t, &i->operand[o], r, at, kernel));
    }
    return NULL;
}

static void forget_replaced(lx_ranges *replaced, lx_range kept)
{
    for (uint32_t n = replaced->count; n-- > 0;)
        if (lx_ranges_meet(replaced->items[n], kept))
            replaced->items[n] = replaced->items[--replaced->count];
}

// What a tile reads in LX lies there since before some kernels. Code of theirs that overwrites it,
// LOADs that forward_copies has left out, does not any more.
static void keep_read(translation *t, const plan_tile *tile, uint32_t behind,
                      const plan_kernel *kernel)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 1; o < i->operand_count; o++) {
        if (i->operand[o].space != ISA_SPACE_LX) continue;
        const byte_range bytes = range_shifted(plan_span(i, o), i->operand[o].offset);
        for (uint32_t k = behind; k < kernel->order; k++)
            forget_replaced(&t->lx.items[k].replaced, (lx_range){bytes, LX_WHOLE_STICKS});
    }
}

typedef VEC(plan_step) step_list;

static spyre_status end_steps(translation *t, step_list *steps, plan_kernel *kernel)
{
    const plan_step end = {.kind = STEP_END, .instruction = kernel->end};
    TRY(VEC_PUSH(t->memory, steps, end));
    kernel->steps[ISA_QUEUE_SEQ] = steps->items;
    kernel->step_count[ISA_QUEUE_SEQ] = steps->count;
    return NULL;
}

static spyre_status add_steps(translation *t, const composed_kernel *k, const composed_tile *tile,
                              step_list *steps)
{
    const uint32_t before = (uint32_t)(tile->steps - k->kernel->steps[ISA_QUEUE_SEQ]);
    const uint32_t now = steps->count;
    for (uint32_t n = 0; n < tile->count; n++) {
        plan_step step = tile->steps[n];
        if (step.kind == STEP_END_LOOP) step.body += now - before;
        TRY(VEC_PUSH(t->memory, steps, step));
    }
    return NULL;
}

static spyre_status add_piece(translation *t, const composed_tile *tile, plan_tile *piece,
                              step_list *steps, plan_kernel *kernel)
{
    plan_step step = tile->steps[0];
    for (uint32_t n = 0; n < tile->count; n++)
        if (tile->steps[n].kind == STEP_EXECUTE) step = tile->steps[n];
    step.tile = piece;
    step.depth = kernel->around.depth;
    TRY(note_reads(t, piece, step.instruction, kernel));
    keep_read(t, piece, tile->behind, kernel);
    return VEC_PUSH(t->memory, steps, step);
}

typedef VEC(plan_phase) phase_list;

static spyre_status begin_kernel(composer *c, composed_kernel *k, plan_kernel **out)
{
    TRY_NEW(c->memory, *out, 1);
    **out = *k->kernel;
    (*out)->composed = true;
    (*out)->memory.items = NULL;
    (*out)->memory.count = (*out)->memory.capacity = 0;
    for (uint32_t n = 0; n < k->kernel->memory.count; n++)
        TRY(VEC_PUSH(c->memory, &(*out)->memory, k->kernel->memory.items[n]));
    return add_slots(c, k, *out);
}

static spyre_status end_kernel(translation *t, const plan_phase *like, step_list *steps,
                               plan_kernel *kernel, phase_list *out)
{
    plan_phase phase = *like;
    phase.kernel = kernel;
    if (!steps->count) return NULL;
    TRY(end_steps(t, steps, kernel));
    *steps = (step_list){0};
    return VEC_PUSH(t->memory, out, phase);
}

static double weight_of(const plan_kernel *kernel, const plan_tile *tile)
{
    return 2 * compose_elements(tile) * __builtin_popcount(kernel->source->active_cores);
}

// One kernel of all tiles that are left, but one for each part of a tile that has several.
static spyre_status write_kernel(composer *c, translation *t, const plan_phase *phase,
                                 composed_kernel *k, phase_list *out)
{
    plan_kernel *kernel;
    step_list steps = {0};
    bool splits = false;
    for (uint32_t n = 0; n < k->tiles.count; n++)
        splits = splits || (k->tiles.items[n].elsewhere && k->tiles.items[n].instead.count > 1);
    TRY(begin_kernel(c, k, &kernel));
    for (uint32_t n = 0; n < k->tiles.count; n++) {
        const composed_tile *tile = &k->tiles.items[n];
        if (tile->dropped) continue;
        if (!tile->elsewhere && tile->shares_loop)
            TRY(add_piece(t, tile, tile->tile, &steps, kernel));
        else if (!tile->elsewhere)
            TRY(add_steps(t, k, tile, &steps));
        if (!tile->elsewhere && splits) kernel->weight_bytes = weight_of(kernel, tile->tile);
        for (uint32_t m = 0; m < tile->instead.count && tile->elsewhere; m++) {
            TRY(add_piece(t, tile, tile->instead.items[m], &steps, kernel));
            if (!splits) continue;
            kernel->weight_bytes = weight_of(kernel, tile->instead.items[m]);
            TRY(end_kernel(t, phase, &steps, kernel, out));
            TRY(begin_kernel(c, k, &kernel));
        }
        if (!splits || !steps.count) continue;
        TRY(end_kernel(t, phase, &steps, kernel, out));
        TRY(begin_kernel(c, k, &kernel));
    }
    return end_kernel(t, phase, &steps, kernel, out);
}

spyre_status compose_write_phases(composer *c, translation *t)
{
    card_program *p = t->loaded;
    phase_list out = {0};
    for (uint32_t n = 0; n < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (c->kernels[n].changed) TRY(write_kernel(c, t, phase, &c->kernels[n], &out));
        else TRY(VEC_PUSH(t->memory, &out, *phase));
    }
    p->uncomposed.items = p->phases.items;
    p->uncomposed.count = p->phases.count;
    p->phases.items = out.items;
    p->phases.count = out.count;
    p->phases.capacity = out.capacity;
    return NULL;
}
