// SPDX-License-Identifier: Apache-2.0
//
// From a program to a plan: a private copy, split into phases (kernels and the loops around them);
// inside a kernel each queue gets its own list of steps, without loops that hold nothing for it.
#include <stdlib.h>
#include <string.h>

#include "card/defer.h"
#include "card/machine.h"

typedef VEC(plan_step) step_list;

// Far beyond memory, far below overflow.
#define ROWS_REACH (1LL << 48)

// --- The card's own copy, so that the caller may free the program

static spyre_status copy_kernels(arena *memory, const isa_program *program, isa_program *copy)
{
    for (uint32_t k = 0; k < program->kernels.count; k++) {
        isa_kernel kernel = program->kernels.items[k];
        size_t values = (size_t)ISA_CORES * kernel.slot_count;
        int64_t *parameters = ARENA_NEW(memory, int64_t, values);
        TRY_ALLOC(parameters);
        if (values) memcpy(parameters, kernel.parameters, values * sizeof *parameters);
        kernel.parameters = parameters;
        kernel.name = arena_strdup(memory, kernel.name ? kernel.name : "");
        kernel.location = arena_strdup(memory, kernel.location ? kernel.location : "");
        if (!kernel.name || !kernel.location) return status_no_memory();
        TRY(VEC_PUSH(memory, &copy->kernels, kernel));
    }
    return NULL;
}

static spyre_status copy_program(arena *memory, const isa_program *program,
                                 const isa_program **out_copy)
{
    isa_program *copy = isa_program_create(memory);
    TRY_ALLOC(copy);
    copy->arg_count = program->arg_count;
    int64_t *bytes = ARENA_NEW(memory, int64_t, program->arg_count);
    TRY_ALLOC(bytes);
    if (program->arg_bytes && program->arg_count)
        memcpy(bytes, program->arg_bytes, program->arg_count * sizeof *bytes);
    copy->arg_bytes = bytes;
    for (uint32_t i = 0; i < program->code.count; i++)
        TRY(VEC_PUSH(memory, &copy->code, program->code.items[i]));
    TRY(copy_kernels(memory, program, copy));
    *out_copy = copy;
    return NULL;
}

// --- Tiles

static void widen(plan_span *span, int64_t stride, int64_t extent)
{
    int64_t reach = stride * (extent - 1);
    if (reach < 0) span->low += reach;
    else span->high += reach;
}

static void span_matmul(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    int64_t lanes = matmul_lanes(i), k = i->extent[2];
    int64_t element[3];
    for (int o = 0; o < 3; o++) element[o] = spyre_format_bytes(i->operand[o].format);
    const isa_operand *c = &i->operand[0], *a = &i->operand[1], *b = &i->operand[2];
    tile->span[0].high = lanes * element[0];
    widen(&tile->span[0], c->stride[0], i->extent[0]);
    widen(&tile->span[0], c->stride[1], i->extent[1]);
    tile->span[1].high = (k < lanes ? k : lanes) * element[1];
    widen(&tile->span[1], a->stride[0], i->extent[0]);
    widen(&tile->span[1], a->stride[2], (k + lanes - 1) / lanes);
    tile->span[2].high = lanes * element[2];
    widen(&tile->span[2], b->stride[2], k);
    widen(&tile->span[2], b->stride[1], i->extent[1]);
}

static void span_plain(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    for (uint32_t o = 0; o < i->operand_count; o++) {
        tile->span[o].high = spyre_format_bytes(i->operand[o].format);
        for (uint32_t d = 0; d < i->dim_count; d++)
            widen(&tile->span[o], i->operand[o].stride[d], i->extent[d]);
    }
}

static bool can_merge(const plan_tile *tile, uint32_t outer, uint32_t operands)
{
    for (uint32_t o = 0; o < operands; o++) {
        uint64_t inner = (uint64_t)tile->stride[o][outer + 1];
        uint64_t whole = inner * (uint64_t)tile->extent[outer + 1];
        if ((uint64_t)tile->stride[o][outer] != whole) return false;
    }
    return true;
}

// Merging keeps the order of elements, which REDUCE depends on.
static void normalise(plan_tile *tile)
{
    const isa_instruction *i = tile->instruction;
    uint32_t operands = i->operand_count;
    for (uint32_t d = 0; d < i->dim_count; d++) {
        if (i->extent[d] == 1) continue;
        tile->extent[tile->dim_count] = i->extent[d];
        for (uint32_t o = 0; o < operands; o++)
            tile->stride[o][tile->dim_count] = i->operand[o].stride[d];
        tile->dim_count++;
    }
    if (tile->dim_count == 0) tile->extent[tile->dim_count++] = 1;
    for (uint32_t d = tile->dim_count - 1; d-- > 0;) {
        if (!can_merge(tile, d, operands)) continue;
        tile->extent[d] *= tile->extent[d + 1];
        for (uint32_t o = 0; o < operands; o++) tile->stride[o][d] = tile->stride[o][d + 1];
        for (uint32_t later = d + 1; later + 1 < tile->dim_count; later++) {
            tile->extent[later] = tile->extent[later + 1];
            for (uint32_t o = 0; o < operands; o++)
                tile->stride[o][later] = tile->stride[o][later + 1];
        }
        tile->dim_count--;
    }
}

static spyre_status check_rows(const isa_instruction *i)
{
    int64_t reach;
    if (__builtin_mul_overflow(i->row_stride, i->row_count, &reach) || llabs(reach) > ROWS_REACH) {
        return status_new(SPYRE_INVALID_ARGUMENT, "%lld rows of %lld bytes leave the address space",
                          (long long)i->row_count, (long long)i->row_stride);
    }
    return NULL;
}

static spyre_status make_tile(arena *memory, const isa_instruction *i, plan_tile **out_tile)
{
    TRY(check_rows(i));
    plan_tile *tile = ARENA_NEW(memory, plan_tile, 1);
    TRY_ALLOC(tile);
    tile->instruction = i;
    if (i->opcode == ISA_MATMUL) {
        span_matmul(tile);
    } else {
        span_plain(tile);
        normalise(tile);
    }
    if (i->opcode == ISA_VECTOR && opfunc_describe(i->op)->kind == OPFUNC_KIND_UNARY)
        TRY_ALLOC(opfunc_dl16_table(i->op));
    tile->fast = fast_choose(tile);
    *out_tile = tile;
    return NULL;
}

// --- Steps of one queue

static spyre_status add_step(arena *memory, step_list *steps, plan_step step)
{
    return VEC_PUSH(memory, steps, step);
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
    return add_step(memory, steps, end);
}

static spyre_status queue_steps(card_program *p, plan_tile *const *tiles, uint32_t begin,
                                uint32_t end, isa_queue queue, uint32_t outer, step_list *steps)
{
    arena *memory = p->memory;
    uint32_t opened[ISA_MAX_LOOPS], depth = outer;
    for (uint32_t at = begin; at < end; at++) {
        const isa_instruction *i = &p->program->code.items[at];
        plan_step step = {.instruction = at, .depth = depth, .count = i->count};
        if (i->opcode == ISA_LOOP) {
            step.kind = STEP_LOOP;
            opened[depth++] = steps->count;
            TRY(add_step(memory, steps, step));
        } else if (i->opcode == ISA_END_LOOP) {
            TRY(close_loop(memory, steps, opened[--depth], at));
        } else if (i->queue == queue) {
            step.kind = i->opcode == ISA_WAIT     ? STEP_WAIT
                        : i->opcode == ISA_SIGNAL ? STEP_SIGNAL
                                                  : STEP_EXECUTE;
            if (step.kind != STEP_EXECUTE) step.count = i->token;
            step.tile = tiles[at];
            TRY(add_step(memory, steps, step));
        }
    }
    return add_step(memory, steps, (plan_step){.kind = STEP_END, .instruction = end});
}

// --- Kernels and phases

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
        const isa_instruction *i = &program->code.items[at];
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

static spyre_status make_kernel(card_program *p, plan_tile *const *tiles, uint32_t begin,
                                uint32_t end, uint32_t outer, const uint32_t *iterations,
                                plan_kernel **out_kernel)
{
    plan_kernel *kernel = ARENA_NEW(p->memory, plan_kernel, 1);
    TRY_ALLOC(kernel);
    kernel->source = &p->program->kernels.items[p->program->code.items[begin].count];
    kernel->outer_depth = outer;
    for (uint32_t at = begin; at < end; at++)
        if (p->program->code.items[at].opcode == ISA_MATMUL) kernel->has_matmul = true;
    for (isa_queue q = ISA_QUEUE_LOAD; q < ISA_QUEUE_COUNT; q++) {
        step_list steps = {0};
        TRY(queue_steps(p, tiles, begin + 1, end, q, outer, &steps));
        kernel->steps[q] = steps.items;
        kernel->step_count[q] = steps.count;
    }
    TRY(defer_plan_kernel(p->memory, p->program, tiles, begin + 1, end, iterations, kernel));
    uint32_t cores = (uint32_t)__builtin_popcount(kernel->source->active_cores);
    kernel->weight_bytes = kernel_weight(p->program, begin + 1, end) * cores;
    *out_kernel = kernel;
    return NULL;
}

static uint32_t end_of_kernel(const isa_program *program, uint32_t at)
{
    while (program->code.items[at].opcode != ISA_END_KERNEL) at++;
    return at;
}

static spyre_status make_phases(card_program *p, plan_tile *const *tiles)
{
    const isa_program *program = p->program;
    uint32_t opened[ISA_MAX_LOOPS], iterations[ISA_MAX_LOOPS], depth = 0;
    for (uint32_t at = 0; at < program->code.count; at++) {
        const isa_instruction *i = &program->code.items[at];
        plan_phase phase = {.depth = depth, .count = i->count};
        if (i->opcode == ISA_KERNEL) {
            uint32_t end = end_of_kernel(program, at);
            TRY(make_kernel(p, tiles, at, end, depth, iterations, &phase.kernel));
            at = end;
        } else if (i->opcode == ISA_LOOP) {
            phase.kind = PHASE_LOOP;
            iterations[depth] = i->count;
            opened[depth++] = p->phases.count;
        } else if (i->opcode == ISA_END_LOOP) {
            phase.kind = PHASE_END_LOOP;
            phase.depth = --depth;
            phase.body = opened[depth] + 1;
            phase.count = p->phases.items[opened[depth]].count;
        } else {
            continue;
        }
        TRY(VEC_PUSH(p->memory, &p->phases, phase));
    }
    return NULL;
}

static spyre_status make_tiles(card_program *p, plan_tile **tiles)
{
    for (uint32_t at = 0; at < p->program->code.count; at++) {
        const isa_instruction *i = &p->program->code.items[at];
        bool steers = isa_describe(i->opcode)->queue == ISA_QUEUE_SEQ;
        if (steers || i->opcode == ISA_WAIT || i->opcode == ISA_SIGNAL) continue;
        TRY(status_at(make_tile(p->memory, i, &tiles[at]), "instruction %u %s", at,
                      isa_describe(i->opcode)->mnemonic));
    }
    arena *scratch = arena_create();
    TRY_ALLOC(scratch);
    spyre_status status = defer_plan(scratch, p->program, tiles);
    arena_destroy(scratch);
    return status;
}

static spyre_status translate(card_program *p, const isa_program *program)
{
    TRY(copy_program(p->memory, program, &p->program));
    plan_tile **tiles = ARENA_NEW(p->memory, plan_tile *, p->program->code.count);
    TRY_ALLOC(tiles);
    TRY(make_tiles(p, tiles));
    return make_phases(p, tiles);
}

spyre_status card_load(card *c, const isa_program *program, card_program **out_program)
{
    (void)c;
    TRY(isa_verify(program));
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    card_program *p = ARENA_NEW(memory, card_program, 1);
    spyre_status status = p ? NULL : status_no_memory();
    if (!status) {
        p->memory = memory;
        status = translate(p, program);
    }
    if (status) arena_destroy(memory);
    else *out_program = p;
    return status;
}

void card_program_forget_lx(card_program *program)
{
    program->lx_dead_after = true;
}

void card_unload(card *c, card_program *program)
{
    (void)c;
    if (program) arena_destroy(program->memory);
}
