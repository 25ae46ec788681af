// SPDX-License-Identifier: Apache-2.0
//
// Loops around one tile become dims of it: nothing is left to resolve from iteration to iteration,
// and what comes next is known. Two REDUCEs of rows that end in part of a stick,
//
//     loop 448 { reduce sum [2, 32]: lx+S <- x    reduce sum [2, 24]: lx+S <- y }
//
// are taken apart by lanes: the first 24 take x, then y, the other 8 take x alone. Every lane keeps
// its own order of additions:
//
//     reduce sum [448, 2, 2, 24]: lx+S <- x       reduce sum [448, 2, 8]: lx+S+96 <- x+96
//
// One tile over all iterations reads and writes in their order, but executors ask whether its
// operands overlap over all of it. Where they do, other than element for element, loops stay.
#include <string.h>

#include "card/footprint/byte_set.h"
#include "card/pass/absorb.h"
#include "isa/dims.h"

bool absorb_find_block(const plan_step *steps, loop_block *out)
{
    const plan_step *s = steps;
    *out = (loop_block){.loops = steps};
    for (; s->kind == STEP_LOOP; s++) out->depth++;
    for (out->tiles = s; s->kind == STEP_EXECUTE; s++) out->count++;
    for (uint32_t n = 0; n < out->depth; n++, s++)
        if (s->kind != STEP_END_LOOP) return false;
    out->steps = (uint32_t)(s - steps);
    return true;
}

// --- One tile

bool absorb_block(isa_instruction *i, const loop_block *b)
{
    for (const plan_step *loop = b->tiles; loop-- > b->loops;)
        if (!isa_absorb_loop(i, loop->depth, loop->count)) return false;
    return true;
}

static bool same_element(const isa_instruction *i, const isa_operand *a, const isa_operand *b)
{
    bool same = a->offset == b->offset && a->slot == b->slot &&
                spyre_format_bytes(a->format) == spyre_format_bytes(b->format);
    for (uint32_t d = 0; d < i->dim_count; d++) same = same && a->stride[d] == b->stride[d];
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++)
        same = same && a->loop_stride[n] == b->loop_stride[n];
    return same;
}

static bool nests(const isa_instruction *i, uint32_t o)
{
    int64_t extent[ISA_MAX_DIMS], stride[ISA_MAX_DIMS];
    uint32_t moving = 0;
    for (uint32_t d = 0; d < i->dim_count; d++) {
        if (i->operand[o].stride[d] == 0 && i->opcode != ISA_VECTOR) continue;
        extent[moving] = i->extent[d];
        stride[moving++] = i->operand[o].stride[d];
    }
    return byte_runs_lie_apart(moving, extent, stride, spyre_format_bytes(i->operand[o].format));
}

// Of one iteration of the loops that are left.
static byte_range range_of(const isa_instruction *i, uint32_t o)
{
    return range_shifted(plan_span(i, o), i->operand[o].offset);
}

// Faults in LX stay those of the iteration that they belong to.
static bool lies_in_lx(const isa_instruction *i, uint32_t o)
{
    const byte_range all = {0, ISA_LX_BYTES};
    return i->operand[o].space != ISA_SPACE_LX || range_covers(all, range_of(i, o));
}

bool absorb_stays_apart(const isa_instruction *i)
{
    const isa_operand *result = &i->operand[0];
    for (uint32_t o = 0; o < i->operand_count; o++) {
        const isa_operand *input = &i->operand[o];
        if (!lies_in_lx(i, o)) return false;
        if (o == 0 || input->space != result->space) continue;
        bool memory = input->space == ISA_SPACE_MEMORY;
        if (memory ? input->arg != result->arg
                   : !ranges_overlap(range_of(i, 0), range_of(i, o)))
            continue;
        if (i->opcode != ISA_VECTOR || !same_element(i, result, input) || !nests(i, 0))
            return false;
    }
    return true;
}

static bool may_absorb(isa_opcode opcode)
{
    return opcode == ISA_VECTOR || isa_reduces(opcode) || opcode == ISA_FILL ||
           opcode == ISA_LOAD || opcode == ISA_STORE;
}

static bool absorb(isa_instruction *i, const loop_block *b)
{
    return may_absorb(i->opcode) && absorb_block(i, b) && absorb_stays_apart(i);
}

// --- Two REDUCEs

static bool moves_alike(const isa_operand *a, const isa_operand *b)
{
    return isa_same_memory(a, b) && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

// The same accumulators take the second's elements, of which a run may be shorter.
static bool continues(const isa_instruction *a, const isa_instruction *b)
{
    uint32_t last = a->dim_count - 1u;
    if (!isa_reduces(a->opcode) || !isa_same_work(a, b) || a->dim_count != b->dim_count ||
        a->operand[0].offset != b->operand[0].offset || a->extent[last] < b->extent[last])
        return false;
    for (uint32_t d = 0; d < last; d++)
        if (a->extent[d] != b->extent[d]) return false;
    return moves_alike(&a->operand[0], &b->operand[0]) &&
           moves_alike(&a->operand[1], &b->operand[1]);
}

// Rows of one stick may be one dim with their lanes: two dims where `b`, of fewer lanes, has two.
static void split_lanes(isa_instruction *a, const isa_instruction *b)
{
    const uint32_t last = a->dim_count - 1u;
    if (!a->dim_count || b->dim_count != a->dim_count + 1u || a->extent[last] % b->extent[last])
        return;
    isa_split_dim(a, last, a->extent[last] / b->extent[last]);
}

// The lanes of `a` that `b` does not have.
static void keep_rest(isa_instruction *a, uint32_t lanes)
{
    uint32_t last = a->dim_count - 1u;
    a->extent[last] -= lanes;
    for (uint32_t o = 0; o < a->operand_count; o++)
        a->operand[o].offset += lanes * a->operand[o].stride[last];
}

// From tiles a and b to `both`, of the lanes that b has, and `rest`, which may have none.
static bool take_apart(const isa_instruction *a, const isa_instruction *b, const loop_block *block,
                       isa_instruction *both, isa_instruction *rest)
{
    isa_instruction all = *a;
    if (!continues(a, b) || !absorb(&all, block) || !nests(&all, 0)) return false;
    uint32_t last = a->dim_count - 1u, lanes = b->extent[last];
    *both = *rest = *a;
    both->extent[last] = lanes;
    keep_rest(rest, lanes);
    if (both->dim_count == ISA_MAX_DIMS) return false;
    isa_insert_dim(both, 0, 2);
    both->operand[1].stride[0] = b->operand[1].offset - a->operand[1].offset;
    return absorb(both, block) && (rest->extent[last] == 0 || absorb(rest, block));
}

// --- The list of steps

typedef struct {
    arena *memory;
    VEC(plan_step) steps;
    uint32_t open[ISA_MAX_LOOPS], depth;
} new_list;

static spyre_status push_tile(new_list *list, plan_step step, const loop_block *b,
                              const isa_instruction *absorbed)
{
    plan_tile *tile;
    TRY(plan_copy_tile(list->memory, absorbed, &tile));
    step.tile = tile;
    step.depth = b->loops->depth;
    return VEC_PUSH(list->memory, &list->steps, step);
}

static spyre_status push_block(new_list *list, const loop_block *b, bool *out_done)
{
    isa_instruction a = isa_copy(b->tiles->tile->instruction), both, rest;
    isa_remove_single_dims(&a);
    *out_done = false;
    if (b->count == 1) {
        if (!absorb(&a, b)) return NULL;
        *out_done = true;
        return push_tile(list, *b->tiles, b, &a);
    }
    isa_instruction second = isa_copy(b->tiles[1].tile->instruction);
    isa_remove_single_dims(&second);
    split_lanes(&a, &second);
    if (b->count != 2 || !take_apart(&a, &second, b, &both, &rest)) return NULL;
    *out_done = true;
    TRY(push_tile(list, *b->tiles, b, &both));
    if (rest.extent[a.dim_count - 1u] == 0) return NULL;
    return push_tile(list, *b->tiles, b, &rest);
}

static spyre_status push_step(new_list *list, plan_step step)
{
    if (step.kind == STEP_LOOP) list->open[list->depth++] = list->steps.count + 1;
    if (step.kind == STEP_END_LOOP) step.body = list->open[--list->depth];
    return VEC_PUSH(list->memory, &list->steps, step);
}

static spyre_status absorb_in_kernel(arena *memory, plan_kernel *kernel)
{
    const plan_step *steps = kernel->steps[ISA_QUEUE_SEQ];
    new_list list = {.memory = memory};
    for (uint32_t n = 0; n < kernel->step_count[ISA_QUEUE_SEQ];) {
        loop_block block;
        bool done = false;
        if (steps[n].kind == STEP_LOOP && absorb_find_block(&steps[n], &block))
            TRY(push_block(&list, &block, &done));
        if (!done) TRY(push_step(&list, steps[n]));
        n += done ? block.steps : 1;
    }
    kernel->steps[ISA_QUEUE_SEQ] = list.steps.items;
    kernel->step_count[ISA_QUEUE_SEQ] = list.steps.count;
    return NULL;
}

spyre_status card_pass_absorb_loops(translation *t)
{
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        if (kernel && kernel->steps[ISA_QUEUE_SEQ]) TRY(absorb_in_kernel(t->memory, kernel));
    }
    return NULL;
}
