// SPDX-License-Identifier: Apache-2.0
//
// A kernel as five lists of steps. A queue's list has no loops that hold nothing for it. Cores of a
// kernel run the same code at the same time, so one is walked for all of them; where they wait for
// each other's messages, every core is.
#include "card/time/time.h"

isa_queue time_queue_of(uint32_t number)
{
    static const isa_queue queues[TIME_QUEUES] = {ISA_QUEUE_LOAD, ISA_QUEUE_STORE, ISA_QUEUE_RING,
                                                  ISA_QUEUE_PT, ISA_QUEUE_SFP};
    return queues[number];
}

static spyre_status find_loops(arena *memory, const isa_program *program, uint32_t begin,
                               uint32_t end, time_kernel *k)
{
    uint32_t open = TIME_NO_LOOP;
    for (uint32_t at = begin + 1; at < end; at++) {
        const isa_instruction *i = program->code.items[at];
        if (i->opcode == ISA_END_LOOP) open = k->loops.items[open].parent;
        if (i->opcode != ISA_LOOP) continue;
        time_loop loop = {.parent = open, .count = i->count, .leader = UINT32_MAX, .begin = at};
        loop.depth = open == TIME_NO_LOOP ? 0 : k->loops.items[open].depth + 1;
        open = k->loops.count;
        TRY(VEC_PUSH(memory, &k->loops, loop));
    }
    return NULL;
}

typedef struct {
    arena *memory;
    const isa_program *program;
    time_kernel *kernel;
    uint32_t queue;
    uint32_t opened[ISA_MAX_LOOPS];     // its LOOP step
    uint32_t depth;
} list_builder;

static spyre_status add(list_builder *b, time_step step)
{
    return VEC_PUSH(b->memory, &b->kernel->steps[b->queue], step);
}

static spyre_status close_loop(list_builder *b, uint32_t loop, uint32_t at)
{
    uint32_t opened = b->opened[--b->depth];
    if (b->kernel->steps[b->queue].count == opened + 1) {
        b->kernel->steps[b->queue].count--;
        return NULL;
    }
    if (b->kernel->loops.items[loop].leader > b->queue)
        b->kernel->loops.items[loop].leader = b->queue;
    return add(b, (time_step){.kind = TIME_END_LOOP, .loop = loop, .body = opened + 1,
                              .instruction = at});
}

static spyre_status add_instruction(list_builder *b, uint32_t loop, uint32_t at)
{
    const isa_instruction *i = b->program->code.items[at];
    time_step step = {.kind = TIME_EXECUTE, .loop = loop, .token = i->token, .instruction = at};
    if (i->opcode == ISA_WAIT) step.kind = TIME_WAIT;
    else if (i->opcode == ISA_SIGNAL) step.kind = TIME_SIGNAL;
    if (step.kind != TIME_EXECUTE) return add(b, step);
    const time_loop *loops = b->kernel->loops.items;
    step.times = 1;
    for (; loop != TIME_NO_LOOP; loop = loops[loop].parent) step.times *= loops[loop].count;
    time_cost_of(b->kernel->source, i, &step.cost);
    return add(b, step);
}

static spyre_status build_queue(list_builder *b, uint32_t begin, uint32_t end)
{
    uint32_t open = TIME_NO_LOOP, next = 0;
    const time_loop *loops = b->kernel->loops.items;
    for (uint32_t at = begin + 1; at < end; at++) {
        const isa_instruction *i = b->program->code.items[at];
        if (i->opcode == ISA_LOOP) {
            open = next++;
            b->opened[b->depth++] = b->kernel->steps[b->queue].count;
            TRY(add(b, (time_step){.kind = TIME_LOOP, .loop = open, .instruction = at}));
        } else if (i->opcode == ISA_END_LOOP) {
            TRY(close_loop(b, open, at));
            open = loops[open].parent;
        } else if (i->queue == time_queue_of(b->queue)) {
            TRY(add_instruction(b, open, at));
        }
    }
    return add(b, (time_step){.kind = TIME_END, .loop = TIME_NO_LOOP, .instruction = end});
}

// --- What a kernel's transfers cost one another

typedef struct {
    double read_us, written_us, spread_us;
} traffic;

static traffic find_traffic(const time_kernel *k)
{
    traffic t = {0};
    for (uint32_t q = 0; q < TIME_QUEUES; q++) {
        for (uint32_t n = 0; n < k->steps[q].count; n++) {
            const time_step *step = &k->steps[q].items[n];
            double us = step->times * step->cost.bytes_us;
            if (step->cost.kind == TIME_WRITE) t.written_us += us;
            if (step->cost.kind != TIME_READ) continue;
            t.read_us += us;
            t.spread_us += us * step->cost.spread;
        }
    }
    return t;
}

static bool has_matmul(const time_kernel *k)
{
    for (uint32_t q = 0; q < TIME_QUEUES; q++)
        for (uint32_t n = 0; n < k->steps[q].count; n++)
            if (k->steps[q].items[n].cost.macs > 0) return true;
    return false;
}

// The memory turns around for every byte of the rarer direction. What it loses on reads that lie
// far apart (pages that are opened) happens meanwhile: the larger of the two counts. Operands of
// matmuls are said to come at the full rate wherever they lie.
static void add_overheads(time_kernel *k, double turnaround)
{
    traffic t = find_traffic(k);
    if (has_matmul(k)) t.spread_us = 0;
    time_kind rarer = t.written_us <= t.read_us ? TIME_WRITE : TIME_READ;
    double turns_us = turnaround * (rarer == TIME_WRITE ? t.written_us : t.read_us);
    for (uint32_t q = 0; q < TIME_QUEUES; q++) {
        for (uint32_t n = 0; n < k->steps[q].count; n++) {
            time_cost *cost = &k->steps[q].items[n].cost;
            if (turns_us < t.spread_us) cost->us += cost->bytes_us * cost->spread;
            else if (cost->kind == rarer) cost->us += cost->bytes_us * turnaround;
        }
    }
}

spyre_status time_kernel_build(arena *memory, const isa_program *program, uint32_t begin,
                               uint32_t end, time_kernel *out)
{
    *out = (time_kernel){.source = &program->kernels.items[program->code.items[begin]->count]};
    TRY(find_loops(memory, program, begin, end, out));
    bool receives = false;
    for (uint32_t q = 0; q < TIME_QUEUES; q++) {
        list_builder b = {.memory = memory, .program = program, .kernel = out, .queue = q};
        TRY(build_queue(&b, begin, end));
    }
    for (uint32_t at = begin; at < end; at++)
        receives = receives || program->code.items[at]->opcode == ISA_RECEIVE;
    uint32_t cores = (uint32_t)__builtin_popcount(out->source->active_cores);
    out->receives = receives;
    out->core_count = receives || cores == 0 ? cores : 1;
    out->weight = receives ? 1 : cores;
    add_overheads(out, time_turnaround(program, begin, end));
    return NULL;
}
