// SPDX-License-Identifier: Apache-2.0
//
// Kernels and the loops around them are the phases of a plan. Each queue of a kernel gets its own
// list of steps, which it walks when queues execute the kernel.
#include "card/machine.h"
#include "card/pass/core_groups.h"
#include "card/plan/pass.h"

static double tile_weight(const isa_instruction *i)
{
    double elements = 1;
    for (uint32_t d = 0; d < i->dim_count; d++) elements *= i->extent[d];
    // A multiply-accumulate costs a host about a 16th of moving an element.
    if (i->opcode == ISA_MATMUL) return elements * matmul_lanes(i) / 16.0;
    return elements * 2.0;
}

static double kernel_weight(const isa_program *program, uint32_t begin, uint32_t end)
{
    double weight = 0, repeats[ISA_MAX_LOOPS + 1] = {1};
    uint32_t depth = 0;
    for (uint32_t at = begin; at < end; at++) {
        const isa_instruction *i = program->code.items[at];
        if (i->opcode == ISA_LOOP) {
            repeats[depth + 1] = repeats[depth] * i->count;
            depth++;
        } else if (i->opcode == ISA_END_LOOP) {
            depth--;
        } else if (i->opcode != ISA_WAIT && i->opcode != ISA_SIGNAL) {
            weight += tile_weight(i) * repeats[depth];
        }
    }
    return weight;
}

static spyre_status make_kernel(const translation *t, const loop_nest *around, uint32_t at,
                                uint32_t order, plan_kernel **out_kernel)
{
    const isa_program *program = t->program;
    plan_kernel *kernel = ARENA_NEW(t->memory, plan_kernel, 1);
    TRY_ALLOC(kernel);
    *kernel = (plan_kernel){.source = &program->kernels.items[program->code.items[at]->count],
                            .order = order, .begin = at + 1, .end = at, .around = *around};
    for (; program->code.items[kernel->end]->opcode != ISA_END_KERNEL; kernel->end++)
        if (program->code.items[kernel->end]->opcode == ISA_MATMUL) kernel->has_matmul = true;
    for (isa_queue q = ISA_QUEUE_LOAD; q < ISA_QUEUE_COUNT; q++)
        TRY(plan_list_steps(t->memory, program, t->tiles, q, kernel));
    kernel->group = core_group_of(kernel->source, NULL, 0);
    uint32_t cores = (uint32_t)__builtin_popcount(kernel->source->active_cores);
    kernel->weight_bytes = kernel_weight(program, kernel->begin, kernel->end) * cores;
    *out_kernel = kernel;
    return NULL;
}

spyre_status card_pass_split_phases(translation *t)
{
    card_program *p = t->loaded;
    uint32_t opened[ISA_MAX_LOOPS], kernels = 0;
    loop_nest around = {0};
    for (uint32_t at = 0; at < t->program->code.count; at++) {
        const isa_instruction *i = t->program->code.items[at];
        plan_phase phase = {.depth = around.depth, .count = i->count};
        if (i->opcode == ISA_LOOP) opened[around.depth] = p->phases.count;
        loop_nest_follow(&around, i, at);
        if (i->opcode == ISA_KERNEL) {
            TRY(make_kernel(t, &around, at, kernels++, &phase.kernel));
            at = phase.kernel->end;
        } else if (i->opcode == ISA_LOOP) {
            phase.kind = PHASE_LOOP;
        } else if (i->opcode == ISA_END_LOOP) {
            phase.kind = PHASE_END_LOOP;
            phase.depth = around.depth;
            phase.body = opened[around.depth] + 1;
            phase.count = p->phases.items[opened[around.depth]].count;
        } else {
            continue;
        }
        TRY(VEC_PUSH(p->memory, &p->phases, phase));
    }
    return NULL;
}
