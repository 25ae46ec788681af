// SPDX-License-Identifier: Apache-2.0
//
// The steps of one queue of a kernel: its instructions in the order of the code, without loops that
// hold nothing for it.
#include "card/plan/pass.h"

typedef VEC(plan_step) step_list;

void loop_nest_follow(loop_nest *place, const isa_instruction *i, uint32_t at)
{
    if (i->opcode == ISA_LOOP) {
        place->loop_id[place->depth] = at;
        place->iterations[place->depth++] = i->count;
    } else if (i->opcode == ISA_END_LOOP) {
        place->depth--;
    }
}

void loop_nest_step(loop_nest *place, const plan_step *step)
{
    if (step->kind == STEP_LOOP) {
        place->loop_id[place->depth] = step->instruction;
        place->iterations[place->depth++] = step->count;
    } else if (step->kind == STEP_END_LOOP) {
        place->depth--;
    }
}

bool loop_nest_same(const loop_nest *a, const loop_nest *b, uint32_t depth)
{
    bool same = a->depth >= depth && b->depth >= depth;
    for (uint32_t n = 0; n < depth && same; n++) same = a->loop_id[n] == b->loop_id[n];
    return same;
}

// Ends the innermost loop; a loop without steps disappears.
static spyre_status close_loop(arena *memory, step_list *steps, uint32_t opened, uint32_t at)
{
    if (steps->count == opened + 1) {
        steps->count--;
        return NULL;
    }
    plan_step end = {.kind = STEP_END_LOOP, .instruction = at, .body = opened + 1};
    end.depth = steps->items[opened].depth;
    end.count = steps->items[opened].count;
    return VEC_PUSH(memory, steps, end);
}

static spyre_status list(arena *memory, const isa_program *program, plan_tile *const *tiles,
                         const plan_kernel *kernel, isa_queue queue, step_list *steps)
{
    uint32_t opened[ISA_MAX_LOOPS], depth = kernel->around.depth, end = kernel->end;
    for (uint32_t at = kernel->begin; at < end; at++) {
        const isa_instruction *i = program->code.items[at];
        plan_step step = {.instruction = at, .depth = depth, .count = i->count};
        bool own = queue == ISA_QUEUE_SEQ ? tiles[at] != NULL : i->queue == queue;
        if (i->opcode == ISA_LOOP) {
            // A product that stands for the loop (accumulate_matmuls.c).
            step.tile = tiles[at];
            if (own && step.tile) TRY(VEC_PUSH(memory, steps, step));
            step = (plan_step){.kind = STEP_LOOP, .instruction = at, .depth = depth,
                               .count = i->count};
            opened[depth++] = steps->count;
            TRY(VEC_PUSH(memory, steps, step));
        } else if (i->opcode == ISA_END_LOOP) {
            TRY(close_loop(memory, steps, opened[--depth], at));
        } else if (own) {
            step.kind = i->opcode == ISA_WAIT     ? STEP_WAIT
                        : i->opcode == ISA_SIGNAL ? STEP_SIGNAL
                                                  : STEP_EXECUTE;
            if (step.kind != STEP_EXECUTE) step.count = i->token;
            step.tile = tiles[at];
            TRY(VEC_PUSH(memory, steps, step));
        }
    }
    plan_step last = {.kind = STEP_END, .instruction = end};
    return VEC_PUSH(memory, steps, last);
}

spyre_status plan_list_steps(arena *memory, const isa_program *program, plan_tile *const *tiles,
                             isa_queue queue, plan_kernel *kernel)
{
    step_list steps = {0};
    TRY(list(memory, program, tiles, kernel, queue, &steps));
    VEC_FIT(memory, &steps);
    kernel->steps[queue] = steps.items;
    kernel->step_count[queue] = steps.count;
    return NULL;
}

bool plan_hands_over(const plan_kernel *from, const plan_kernel *to)
{
    for (uint32_t n = 0; n < from->memory.count; n++)
        for (uint32_t m = 0; m < to->memory.count; m++)
            if (from->memory.items[n].stores && !to->memory.items[m].stores &&
                from->memory.items[n].arg == to->memory.items[m].arg)
                return true;
    return false;
}
