// SPDX-License-Identifier: Apache-2.0
//
// Cores that a host thread takes along together do in one tile what each would do in its own, the
// core being a dim like any other. Cores often have sticks in turn: core c of 32 copies every 32nd
// one, and a thread that goes through them core by core goes through all of memory 32 times, one
// stick per page. Joined,
//
//     cores 0..31: store [64, 64]: arg1+slot1 <- arg0+slot0        slots 0, 128, 256, ..
//
// is one copy, `store [131072]`, in the order of memory. Only of tiles that touch nothing but
// memory: what lies in LX is best used while the host has it in its cache, and so is what another
// kernel of the stage reads. Where a row does not exist, cores go one by one, and the fault is the
// right one's.
#include "card/footprint/byte_set.h"
#include "card/pass/absorb.h"
#include "isa/dims.h"

// Where each operand of an instruction begins on each core of a unit.
typedef struct {
    uint32_t cores;
    int64_t of[ISA_CORES][ISA_MAX_OPERANDS];
} core_places;

// --- Cores as dims

static bool add_cores(isa_instruction *i, const core_places *p)
{
    for (uint32_t block = 1, blocks; block < p->cores; block *= blocks) {
        blocks = points_count_blocks(p->cores, ISA_MAX_OPERANDS, p->of[0], block);
        if (blocks < 2 || i->dim_count == ISA_MAX_DIMS) return false;
        isa_insert_dim(i, 0, blocks);
        for (uint32_t o = 0; o < i->operand_count; o++)
            i->operand[o].stride[0] = p->of[block][o] - p->of[0][o];
    }
    return true;
}

// --- Units

static core_places find_places(const plan_stage *stage, const isa_kernel *kernel,
                               const isa_instruction *i, uint32_t first)
{
    core_places p = {0};
    for (uint32_t n = first; n < first + stage->group.cores; n++) {
        uint32_t core = stage->group.order[n];
        if (!isa_is_active(kernel, core)) continue;
        const int64_t *row = kernel->parameters + (size_t)core * kernel->slot_count;
        for (uint32_t o = 0; o < i->operand_count; o++)
            p.of[p.cores][o] = i->operand[o].slot == ISA_NO_SLOT ? 0 : row[i->operand[o].slot];
        p.cores++;
    }
    return p;
}

static bool same_places(const core_places *a, const core_places *b, uint32_t operands)
{
    if (a->cores != b->cores) return false;
    for (uint32_t n = 0; n < a->cores; n++)
        for (uint32_t o = 0; o < operands; o++)
            if (a->of[n][o] - a->of[0][o] != b->of[n][o] - b->of[0][o]) return false;
    return true;
}

// The places on the cores of every unit that has some; false when units differ.
static bool find_all_places(const plan_stage *stage, const isa_kernel *kernel,
                            const isa_instruction *i, core_places *out)
{
    uint32_t cores = (uint32_t)__builtin_popcount(stage->cores);
    out->cores = 0;
    for (uint32_t first = 0; first < cores; first += stage->group.cores) {
        core_places p = find_places(stage, kernel, i, first);
        if (p.cores == 0) continue;
        if (out->cores && !same_places(out, &p, i->operand_count)) return false;
        *out = p;
    }
    return true;
}

// --- Tiles

static bool lies_in_memory(const isa_instruction *i)
{
    for (uint32_t o = 0; o < i->operand_count; o++)
        if (i->operand[o].space != ISA_SPACE_MEMORY) return false;
    return true;
}

static bool may_join(isa_opcode opcode)
{
    return opcode == ISA_LOAD || opcode == ISA_STORE || opcode == ISA_VECTOR ||
           opcode == ISA_GATHER;
}

// The tile of a block for the cores of a unit; null where they cannot have one.
static spyre_status join_block(const translation *t, const plan_stage *stage,
                               const plan_kernel *kernel, const loop_block *b, plan_tile **out)
{
    core_places places;
    isa_instruction i = isa_copy(b->tiles->tile->instruction);
    isa_remove_single_dims(&i);
    *out = NULL;
    bool joins = may_join(i.opcode) && lies_in_memory(&i) && absorb_block(&i, b) &&
                 find_all_places(stage, kernel->source, &i, &places) && add_cores(&i, &places) &&
                 absorb_stays_apart(&i);
    if (!joins) return NULL;
    TRY(plan_copy_tile(t->memory, &i, out));
    plan_order_dims(*out);
    return NULL;
}

// All steps of a kernel, one per tile; a GATHER, which may fault, must be the only one.
static spyre_status join_steps(const translation *t, const plan_stage *stage,
                               const plan_kernel *kernel, joined_steps *out, bool *out_joins)
{
    const plan_step *s = kernel->steps[ISA_QUEUE_SEQ];
    bool may_fault = false;
    *out_joins = true;
    while (s->kind != STEP_END && *out_joins) {
        loop_block block;
        plan_tile *tile = NULL;
        if (absorb_find_block(s, &block) && (block.count == 1 || !block.depth))
            TRY(join_block(t, stage, kernel, &block, &tile));
        *out_joins = tile != NULL;
        if (!tile) return NULL;
        plan_step step = *block.tiles;
        step.tile = tile;
        step.depth = 0;
        may_fault |= tile->instruction->opcode == ISA_GATHER;
        TRY(VEC_PUSH(t->memory, out, step));
        s = block.depth ? block.loops + block.steps : block.tiles + 1;
    }
    *out_joins = out->count == 1 || (out->count && !may_fault);
    return NULL;
}

// --- Stages

// Kernels by tiles of which none reads what another writes.
static bool is_candidate(const plan_phase *first)
{
    const plan_stage *stage = first->stage;
    if (first->depth || stage->divides_products) return false;
    for (uint32_t n = 0; n < stage->actions.count; n++) {
        const plan_action *a = &stage->actions.items[n];
        if (a->kind != ACTION_TILES || a->shares || a->parts || a->remote) return false;
        for (uint32_t m = 0; m < stage->kernels; m++)
            if (m != a->first && plan_hands_over(first[m].kernel, first[a->first].kernel))
                return false;
    }
    return true;
}

// For units of so many cores.
static spyre_status join_units(const translation *t, const plan_phase *first, plan_stage *stage,
                               bool *out_joins)
{
    *out_joins = true;
    for (uint32_t n = 0; n < stage->actions.count && *out_joins; n++) {
        plan_action *a = &stage->actions.items[n];
        a->joined = (joined_steps){0};
        TRY(join_steps(t, stage, first[a->first].kernel, &a->joined, out_joins));
    }
    for (uint32_t n = 0; n < stage->actions.count && !*out_joins; n++)
        stage->actions.items[n].joined.count = 0;
    return NULL;
}

// A unit for each host thread, or the most cores that leave units equal.
static spyre_status join_stage(const translation *t, const plan_phase *first, plan_stage *stage)
{
    uint32_t cores = (uint32_t)__builtin_popcount(stage->cores), before = stage->group.cores;
    uint32_t most = (cores + t->threads - 1) / t->threads;
    while (cores % most) most--;
    bool joins = most > 1;
    stage->group.cores = most;
    if (joins) TRY(join_units(t, first, stage, &joins));
    if (!joins) stage->group.cores = before;
    return NULL;
}

spyre_status card_pass_join_cores(translation *t)
{
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        plan_phase *phase = &t->loaded->phases.items[n];
        if (!phase->stage || !is_candidate(phase)) continue;
        TRY(join_stage(t, phase, phase->stage));
    }
    return NULL;
}
