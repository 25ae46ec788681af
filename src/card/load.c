// SPDX-License-Identifier: Apache-2.0
//
// From a program to a plan: a private copy, split into phases (kernels and the loops around them);
// inside a kernel each queue gets its own list of steps, without loops that hold nothing for it.
#include <string.h>

#include "card/chain/chain.h"
#include "card/chain/spread.h"
#include "card/exchange/exchange.h"
#include "card/exchange/local.h"
#include "card/exchange/through.h"
#include "card/fuse/fuse.h"
#include "card/fuse/unread.h"
#include "card/machine.h"

typedef VEC(plan_step) step_list;

// A program on its way; one entry of the arrays for each instruction.
typedef struct {
    card_program *loaded;
    arena *scratch;
    plan_tile **tiles;
    plan_tile **fused;                      // of the kernel at work
    lx_summaries lx;                        // of all kernels
    lx_range_list exposed;                  // of them together
    uint32_t kernels;                       // made so far
    bool in_group;
    local_footprints group;                 // of the kernels that the next one may join
    lx_range wanted;                        // of LX, by other cores while the group runs
    plan_kernel *sender;                    // the kernel before, when its messages wait
    bool ring_used;                         // by kernels that are no exchanges
} translation;

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
        bool own = queue == ISA_QUEUE_SEQ ? tiles[at] != NULL : i->queue == queue;
        if (i->opcode == ISA_LOOP) {
            // A product that stands for the loop (fuse_matmul.c).
            step.tile = tiles[at];
            if (own && step.tile) TRY(add_step(memory, steps, step));
            step = (plan_step){.kind = STEP_LOOP, .instruction = at, .depth = depth,
                               .count = i->count};
            opened[depth++] = steps->count;
            TRY(add_step(memory, steps, step));
        } else if (i->opcode == ISA_END_LOOP) {
            TRY(close_loop(memory, steps, opened[--depth], at));
        } else if (own) {
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

static spyre_status add_steps(card_program *p, plan_tile *const *tiles, uint32_t begin,
                              uint32_t end, isa_queue queue, plan_kernel *kernel)
{
    step_list steps = {0};
    TRY(queue_steps(p, tiles, begin, end, queue, kernel->outer_depth, &steps));
    kernel->steps[queue] = steps.items;
    kernel->step_count[queue] = steps.count;
    return NULL;
}

static spyre_status add_fused(translation *t, uint32_t begin, uint32_t end, const lx_place *outer,
                              plan_kernel *kernel)
{
    card_program *p = t->loaded;
    if (!fuse_in_order(p->program, begin, end)) return NULL;
    TRY(fuse_kernel(p->memory, t->scratch, p->program, t->tiles, begin, end, outer, &t->exposed,
                    t->fused));
    TRY(fuse_list_memory(p->memory, p->program, t->tiles, t->fused, begin, end, outer, kernel));
    kernel->gang = batch_gang(kernel->source, t->fused + begin, end - begin);
    kernel->only_matmuls = kernel->has_matmul;
    for (uint32_t at = begin; at < end; at++)
        if (t->fused[at] && !t->fused[at]->product) kernel->only_matmuls = false;
    return add_steps(p, t->fused, begin, end, ISA_QUEUE_SEQ, kernel);
}

// A kernel and what another core may still want of its LX.
static bool keeps_wanted(const translation *t, const plan_kernel *kernel)
{
    const lx_range_list *written = &t->lx.items[kernel->order].written;
    for (uint32_t n = 0; n < written->count; n++)
        if (written->items[n].low < t->wanted.high && t->wanted.low < written->items[n].high)
            return false;
    return true;
}

// Cores may go on into a fused kernel without meeting when it conflicts with none of those that
// they have come through so. They meet before an exchange, which begins a group.
static spyre_status find_group(translation *t, uint32_t begin, uint32_t end,
                               const lx_place *outer, plan_kernel *kernel)
{
    bool local = (kernel->steps[ISA_QUEUE_SEQ] || kernel->exchange) && outer->depth == 0;
    local_footprints own = {0};
    if (local) {
        const isa_program *program = t->loaded->program;
        TRY(local_collect(t->scratch, program, t->tiles, begin, end, kernel->source, &own));
    }
    kernel->joins = local && t->in_group && !kernel->exchange && keeps_wanted(t, kernel);
    for (uint32_t n = 0; n < t->group.count && kernel->joins; n++)
        for (uint32_t m = 0; m < own.count && kernel->joins; m++)
            kernel->joins = !local_conflict(&t->group.items[n], &own.items[m]);
    if (!kernel->joins) {
        t->group.count = 0;
        t->wanted = kernel->exchange ? kernel->exchange->sent : (lx_range){0, 0};
    }
    t->in_group = local;
    for (uint32_t m = 0; m < own.count; m++)
        TRY(VEC_PUSH(t->scratch, &t->group, own.items[m]));
    return NULL;
}

// Kernels with messages. What one has sent that the next one does not receive stays on the ring,
// which only the ring itself can then follow.
static spyre_status find_exchange(translation *t, uint32_t depth, plan_kernel *kernel)
{
    const card_program *p = t->loaded;
    const lx_summary *own = &t->lx.items[kernel->order], *sends = own;
    plan_kernel *sender = t->sender;
    bool uses_ring = kernel->step_count[ISA_QUEUE_RING] > 1;
    t->sender = NULL;
    if (sender) sends = &t->lx.items[sender->order];
    t->ring_used = t->ring_used || (uses_ring && depth > 0);
    if (uses_ring && !t->ring_used)
        TRY(exchange_find(p->memory, p->program, t->tiles, sends, own, &kernel->exchange));
    if (kernel->exchange && sender) sender->sends_later = true;
    t->ring_used = t->ring_used || (sender && !kernel->exchange);
    if (!uses_ring || kernel->exchange || t->ring_used) return NULL;
    t->sender = kernel;
    return NULL;
}

static spyre_status make_kernel(translation *t, uint32_t begin, uint32_t end,
                                const lx_place *outer, plan_kernel **out_kernel)
{
    card_program *p = t->loaded;
    plan_kernel *kernel = ARENA_NEW(p->memory, plan_kernel, 1);
    TRY_ALLOC(kernel);
    kernel->source = &p->program->kernels.items[p->program->code.items[begin].count];
    kernel->outer_depth = outer->depth;
    kernel->order = t->kernels++;
    for (uint32_t at = begin; at < end; at++)
        if (p->program->code.items[at].opcode == ISA_MATMUL) kernel->has_matmul = true;
    for (isa_queue q = ISA_QUEUE_LOAD; q < ISA_QUEUE_COUNT; q++)
        TRY(add_steps(p, t->tiles, begin + 1, end, q, kernel));
    TRY(add_fused(t, begin + 1, end, outer, kernel));
    TRY(find_exchange(t, outer->depth, kernel));
    TRY(find_group(t, begin + 1, end, outer, kernel));
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

static spyre_status make_phases(translation *t)
{
    card_program *p = t->loaded;
    uint32_t opened[ISA_MAX_LOOPS];
    lx_place outer = {0};
    for (uint32_t at = 0; at < p->program->code.count; at++) {
        const isa_instruction *i = &p->program->code.items[at];
        plan_phase phase = {.depth = outer.depth, .count = i->count};
        if (i->opcode == ISA_LOOP) opened[outer.depth] = p->phases.count;
        lx_place_pass(&outer, i, at);
        if (i->opcode == ISA_KERNEL) {
            uint32_t end = end_of_kernel(p->program, at);
            TRY(make_kernel(t, at, end, &outer, &phase.kernel));
            at = end;
        } else if (i->opcode == ISA_LOOP) {
            t->in_group = false;
            phase.kind = PHASE_LOOP;
        } else if (i->opcode == ISA_END_LOOP) {
            t->in_group = false;
            phase.kind = PHASE_END_LOOP;
            phase.depth = outer.depth;
            phase.body = opened[outer.depth] + 1;
            phase.count = p->phases.items[opened[outer.depth]].count;
        } else {
            continue;
        }
        TRY(VEC_PUSH(p->memory, &p->phases, phase));
    }
    return NULL;
}

// Chains of kernels that cores go through without meeting.
static spyre_status make_chains(translation *t)
{
    card_program *p = t->loaded;
    for (uint32_t first = 0, end; first < p->phases.count; first = end) {
        const plan_phase *phases = p->phases.items;
        end = first + 1;
        if (!plan_is_plain(&phases[first]) || !phases[first].kernel->steps[ISA_QUEUE_SEQ])
            continue;
        while (end < p->phases.count && phases[end].kind == PHASE_KERNEL &&
               phases[end].kernel->joins)
            end++;
        TRY(chain_build(p->memory, t->scratch, p->program, t->fused, &t->lx, phases + first,
                        end - first));
    }
    return NULL;
}

// Results of products that the next one does not read.
static void drop_unread(const translation *t)
{
    const card_program *p = t->loaded;
    for (uint32_t n = 0; n + 1 < p->phases.count; n++) {
        const plan_phase *phase = &p->phases.items[n];
        if (plan_is_plain(phase) && plan_is_plain(phase + 1))
            unread_drop(&t->lx, phase->kernel, phase[1].kernel);
    }
}

// Exchanges that need not wait, or not copy.
static spyre_status avoid_exchanges(translation *t)
{
    card_program *p = t->loaded;
    for (uint32_t n = 0; n < p->phases.count; n++) {
        plan_phase *phase = &p->phases.items[n];
        plan_kernel *kernel = phase->kernel;
        uint32_t count = p->phases.count - n;
        if (!plan_is_plain(phase)) continue;
        if (kernel->chain || kernel->exchange)
            TRY(spread_find(p->memory, phase, count, &kernel->spread));
        if (kernel->exchange)
            TRY(through_find(p->memory, t->scratch, &t->lx, phase, count, &kernel->through));
    }
    return NULL;
}

static spyre_status make_tiles(translation *t)
{
    card_program *p = t->loaded;
    for (uint32_t at = 0; at < p->program->code.count; at++) {
        const isa_instruction *i = &p->program->code.items[at];
        bool steers = isa_describe(i->opcode)->queue == ISA_QUEUE_SEQ;
        if (steers || i->opcode == ISA_WAIT || i->opcode == ISA_SIGNAL) continue;
        TRY(status_at(plan_make_tile(p->memory, i, &t->tiles[at]), "instruction %u %s", at,
                      isa_describe(i->opcode)->mnemonic));
    }
    TRY(lx_summarise(t->scratch, p->program, t->tiles, &t->lx));
    for (uint32_t k = 0; k < t->lx.count; k++)
        for (uint32_t n = 0; n < t->lx.items[k].exposed.count; n++)
            TRY(VEC_PUSH(t->scratch, &t->exposed, t->lx.items[k].exposed.items[n]));
    return NULL;
}

static spyre_status list_stored(card_program *p)
{
    for (uint32_t at = 0; at < p->program->code.count; at++) {
        const isa_instruction *i = &p->program->code.items[at];
        if (!isa_stores(i->opcode)) continue;
        bool known = false;
        for (uint32_t n = 0; n < p->stored.count; n++)
            known = known || p->stored.items[n] == i->operand[0].arg;
        if (!known) TRY(VEC_PUSH(p->memory, &p->stored, i->operand[0].arg));
    }
    return NULL;
}

static spyre_status translate_in(translation *t)
{
    size_t count = t->loaded->program->code.count;
    t->tiles = ARENA_NEW(t->scratch, plan_tile *, count);
    TRY_ALLOC(t->tiles);
    t->fused = ARENA_NEW(t->scratch, plan_tile *, count);
    TRY_ALLOC(t->fused);
    TRY(make_tiles(t));
    TRY(list_stored(t->loaded));
    TRY(make_phases(t));
    TRY(make_chains(t));
    drop_unread(t);
    return avoid_exchanges(t);
}

static spyre_status translate(card_program *p, const isa_program *program)
{
    TRY(copy_program(p->memory, program, &p->program));
    translation t = {.loaded = p, .scratch = arena_create()};
    TRY_ALLOC(t.scratch);
    spyre_status status = translate_in(&t);
    arena_destroy(t.scratch);
    return status;
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

size_t card_program_bytes(const card_program *program)
{
    return arena_host_bytes(program->memory);
}
