// SPDX-License-Identifier: Apache-2.0
//
// One core alone with large tiles leaves the other host threads nothing to do, as where a dim has
// no divisor that cores could have:
//
//     core 0: loop 16 { vector identity [8, 64, 64]; vector identity [62, 64] }
//
// Where all that the kernel does is one loop around tiles, or one tile, whose iterations write
// apart from each other and from all that is read, each host thread takes some of them: of the
// loop, or of the dim that is outermost in the tile's result.
#include "card/pass/core_parts.h"

#include <stdlib.h>
#include <string.h>

#include "card/row_fusion/row_fusion.h"

// Below it, threads that meet twice cost more than they save. As plan_kernel.weight_bytes.
#define LEAST_WEIGHT_BYTES 524288.0

// The tiles of a kernel, and what counts their iterations: the loop around them, or a dim of the
// only one.
typedef struct {
    const plan_step *tiles;
    uint32_t count, iterations;
    bool loops;
    uint32_t level;                         // of the loop; else the dim
} iterated;

static bool may_divide(const isa_instruction *i)
{
    return i->opcode == ISA_LOAD || i->opcode == ISA_STORE || i->opcode == ISA_VECTOR;
}

static int64_t stride_of(const iterated *it, const isa_operand *o)
{
    return it->loops ? o->loop_stride[it->level] : o->stride[it->level];
}

// The dim of the farthest results.
static uint32_t outermost_dim(const isa_instruction *i)
{
    uint32_t outermost = 0;
    for (uint32_t d = 1; d < i->dim_count; d++)
        if (llabs(i->operand[0].stride[d]) > llabs(i->operand[0].stride[outermost])) outermost = d;
    return outermost;
}

static bool find_iterations(const plan_kernel *kernel, iterated *out)
{
    const plan_step *s = kernel->steps[ISA_QUEUE_SEQ];
    *out = (iterated){.loops = s->kind == STEP_LOOP};
    if (out->loops) out->level = s->depth, out->iterations = s->count, s++;
    for (out->tiles = s; s->kind == STEP_EXECUTE; s++, out->count++)
        if (!may_divide(s->tile->instruction)) return false;
    if (out->loops && s++->kind != STEP_END_LOOP) return false;
    if (s->kind != STEP_END || !out->count || (!out->loops && out->count > 1)) return false;
    if (out->loops) return true;
    const isa_instruction *i = out->tiles->tile->instruction;
    if (!i->dim_count) return false;
    out->level = outermost_dim(i);
    out->iterations = i->extent[out->level];
    return true;
}

// --- Bytes

// What an operand touches in the first iteration, in all of them.
static byte_range first_range(const plan_kernel *kernel, const iterated *it,
                              const plan_tile *tile, uint32_t o)
{
    isa_instruction i = isa_copy(tile->instruction);
    const uint32_t core = (uint32_t)__builtin_ctz(kernel->source->active_cores);
    if (!it->loops) i.extent[it->level] = 1;
    return range_shifted(plan_span(&i, o), i.operand[o].offset + isa_parameter(kernel->source, core,
                                                                              i.operand[o].slot));
}

static byte_range whole_range(const plan_kernel *kernel, const iterated *it,
                              const plan_tile *tile, uint32_t o)
{
    byte_range all = first_range(kernel, it, tile, o);
    range_repeat(&all, stride_of(it, &tile->instruction->operand[o]), it->iterations);
    return all;
}

static bool same_place(const isa_operand *a, const isa_operand *b)
{
    return a->space == b->space && (a->space != ISA_SPACE_MEMORY || a->arg == b->arg);
}

// An iteration's results lie between those of the one before and of the one behind it.
static bool results_part(const plan_kernel *kernel, const iterated *it, const plan_tile *a,
                         const plan_tile *b)
{
    const isa_operand *x = &a->instruction->operand[0], *y = &b->instruction->operand[0];
    byte_range both = first_range(kernel, it, a, 0);
    if (!same_place(x, y)) return true;
    range_add(&both, first_range(kernel, it, b, 0));
    return stride_of(it, x) == stride_of(it, y) && both.high - both.low <= llabs(stride_of(it, x));
}

static bool reads_apart(const plan_kernel *kernel, const iterated *it, const plan_tile *reader,
                        const plan_tile *writer)
{
    const isa_operand *result = &writer->instruction->operand[0];
    const byte_range written = whole_range(kernel, it, writer, 0);
    for (uint32_t o = 1; o < reader->instruction->operand_count; o++) {
        if (!same_place(&reader->instruction->operand[o], result)) continue;
        if (ranges_overlap(whole_range(kernel, it, reader, o), written)) return false;
    }
    return true;
}

static bool go_in_any_order(const plan_kernel *kernel, const iterated *it)
{
    for (uint32_t a = 0; a < it->count; a++)
        for (uint32_t b = 0; b < it->count; b++)
            if (!results_part(kernel, it, it->tiles[a].tile, it->tiles[b].tile) ||
                !reads_apart(kernel, it, it->tiles[a].tile, it->tiles[b].tile))
                return false;
    return true;
}

bool core_parts_in_any_order(const plan_kernel *kernel, const plan_step *loop)
{
    iterated it = {.loops = true, .level = loop->depth, .iterations = loop->count,
                   .tiles = loop + 1};
    for (const plan_step *s = it.tiles; s->kind == STEP_EXECUTE; s++, it.count++)
        if (!may_divide(s->tile->instruction)) return false;
    return it.tiles[it.count].kind == STEP_END_LOOP && it.count && go_in_any_order(kernel, &it);
}

uint32_t core_parts_count(const plan_kernel *kernel)
{
    const uint32_t active = kernel->source->active_cores;
    iterated it;
    const bool may = active && (active & (active - 1)) == 0 && kernel->steps[ISA_QUEUE_SEQ] &&
                     !kernel->rows && !kernel->messages && !kernel->remote &&
                     !kernel->sends_later && !kernel->around.depth &&
                     kernel->weight_bytes >= LEAST_WEIGHT_BYTES && find_iterations(kernel, &it) &&
                     go_in_any_order(kernel, &it);
    return may ? it.iterations : 0;
}

// --- Parts

static spyre_status cut_tile(const translation *t, const iterated *it, uint32_t begin, uint32_t end,
                             plan_step *step)
{
    isa_instruction i = isa_copy(step->tile->instruction);
    plan_tile *tile;
    for (uint32_t o = 0; o < i.operand_count; o++)
        i.operand[o].offset += begin * stride_of(it, &i.operand[o]);
    if (!it->loops) i.extent[it->level] = end - begin;
    TRY(plan_copy_tile(t->memory, &i, &tile));
    step->tile = tile;
    return NULL;
}

static spyre_status make_part(const translation *t, const plan_kernel *kernel, const iterated *it,
                              uint32_t begin, uint32_t end, plan_kernel *out)
{
    const uint32_t count = kernel->step_count[ISA_QUEUE_SEQ];
    plan_step *steps = ARENA_NEW(t->memory, plan_step, count);
    TRY_ALLOC(steps);
    memcpy(steps, kernel->steps[ISA_QUEUE_SEQ], count * sizeof *steps);
    for (uint32_t n = 0; n < count; n++) {
        const bool counts = steps[n].kind == STEP_LOOP || steps[n].kind == STEP_END_LOOP;
        if (counts) steps[n].count = end - begin;
        if (steps[n].kind == STEP_EXECUTE) TRY(cut_tile(t, it, begin, end, &steps[n]));
    }
    *out = *kernel;
    out->steps[ISA_QUEUE_SEQ] = steps;
    return NULL;
}

spyre_status core_parts_make(const translation *t, const plan_kernel *kernel, uint32_t parts,
                             plan_kernel ***out)
{
    iterated it;
    if (!find_iterations(kernel, &it)) return NULL;
    TRY_NEW(t->memory, *out, parts);
    for (uint32_t n = 0; n < parts; n++) {
        const uint64_t all = it.iterations;
        plan_kernel *part = ARENA_NEW(t->memory, plan_kernel, 1);
        TRY_ALLOC(part);
        const uint32_t begin = (uint32_t)(all * n / parts);
        const uint32_t end = (uint32_t)(all * (n + 1) / parts);
        TRY(make_part(t, kernel, &it, begin, end, part));
        (*out)[n] = part;
    }
    return NULL;
}
