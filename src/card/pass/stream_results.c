// SPDX-License-Identifier: Apache-2.0
//
// What a kernel stores in memory goes past the host's caches where it is much: lines that are
// written whole need not be read before, which is a third of a copy's traffic.
//
//     gather [6, 32768, 64]: arg2 <- arg1, arg0         25 MB in 1.4 ms, through the caches in 2.6
//
// What a later kernel reads must be more than the last cache holds; and not where that is one of
// the same stage: a core goes on into it while its share is in a cache. Row fusions choose by
// themselves (streaming_steps.c).
#include "card/plan/pass.h"

// Of a kernel: from what it stores on, and from where its readers would find nothing of it.
enum { STREAMED_BYTES = 12 << 20, FORGOTTEN_BYTES = 32 << 20 };

enum { ARGUMENTS = UINT16_MAX + 1 };

static uint64_t element_bytes(const isa_instruction *i)
{
    uint64_t bytes = spyre_format_bytes(i->operand[0].format);
    for (uint32_t d = 0; d < i->dim_count; d++) bytes *= i->extent[d];
    return bytes;
}

static bool stores(const plan_step *s)
{
    return s->kind == STEP_EXECUTE && s->tile->instruction->opcode != ISA_MATMUL &&
           s->tile->instruction->operand[0].space == ISA_SPACE_MEMORY;
}

// By all cores.
static uint64_t stored_bytes(const plan_kernel *kernel)
{
    uint64_t bytes = 0, times = (uint64_t)__builtin_popcount(kernel->source->active_cores);
    for (const plan_step *s = kernel->steps[ISA_QUEUE_SEQ]; s->kind != STEP_END; s++) {
        if (s->kind == STEP_LOOP) times *= s->count;
        if (s->kind == STEP_END_LOOP) times /= s->count;
        if (stores(s)) bytes += element_bytes(s->tile->instruction) * times;
    }
    return bytes;
}

static bool is_read_in_stage(const plan_phase *first, uint32_t kernel)
{
    for (uint32_t k = 0; k < first->stage->kernels; k++)
        if (plan_hands_over(first[kernel].kernel, first[k].kernel)) return true;
    return false;
}

static uint32_t stage_units(const plan_stage *stage)
{
    return ((uint32_t)__builtin_popcount(stage->cores) - 1) / stage->group.cores + 1;
}

static spyre_status stream(const translation *t, plan_step *s)
{
    plan_tile *tile = ARENA_NEW(t->memory, plan_tile, 1);
    TRY_ALLOC(tile);
    *tile = *s->tile;
    tile->streams = true;
    tile->executor = tile_choose(tile);
    s->tile = tile;
    return NULL;
}

// By argument: a kernel reads it.
static spyre_status find_read(const translation *t, bool **out)
{
    TRY_NEW(t->scratch, *out, ARGUMENTS);
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        const plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        for (uint32_t m = 0; kernel && m < kernel->memory.count; m++)
            if (!kernel->memory.items[m].stores) (*out)[kernel->memory.items[m].arg] = true;
    }
    return NULL;
}

static bool is_read(const plan_kernel *kernel, const bool *read)
{
    for (uint32_t m = 0; m < kernel->memory.count; m++)
        if (kernel->memory.items[m].stores && read[kernel->memory.items[m].arg]) return true;
    return false;
}

static spyre_status stream_action(const translation *t, const plan_phase *first, plan_action *a,
                                  bool **read)
{
    const plan_kernel *kernel = first[a->first].kernel;
    plan_step *steps = kernel->steps[ISA_QUEUE_SEQ];
    if (a->kind != ACTION_TILES || !steps) return NULL;
    const uint64_t bytes = stored_bytes(kernel);
    if (bytes < STREAMED_BYTES || is_read_in_stage(first, a->first)) return NULL;
    if (!*read) TRY(find_read(t, read));
    if (bytes < FORGOTTEN_BYTES && is_read(kernel, *read)) return NULL;
    for (plan_step *s = steps; s->kind != STEP_END; s++)
        if (stores(s)) TRY(stream(t, s));
    for (uint32_t part = 0; a->parts && part < stage_units(first->stage); part++)
        for (plan_step *s = a->parts[part]->steps[ISA_QUEUE_SEQ]; s->kind != STEP_END; s++)
            if (stores(s)) TRY(stream(t, s));
    for (uint32_t n = 0; n < a->joined.count; n++)
        if (stores(&a->joined.items[n])) TRY(stream(t, &a->joined.items[n]));
    return NULL;
}

spyre_status card_pass_stream_results(translation *t)
{
    bool *read = NULL;
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        const plan_phase *first = &t->loaded->phases.items[n];
        for (uint32_t a = 0; first->stage && a < first->stage->actions.count; a++)
            TRY(stream_action(t, first, &first->stage->actions.items[a], &read));
    }
    return NULL;
}
