// SPDX-License-Identifier: Apache-2.0
//
// A kernel in order gets one list of steps, of the tiles that are left, and what these touch in
// memory, as ranges over all cores and iterations: from that a launch tells whether the list may
// take the place of the queues.
#include <string.h>

#include "card/footprint/footprint.h"
#include "card/machine.h"
#include "card/pass/core_groups.h"
#include "card/plan.h"
#include "card/plan/pass.h"

static spyre_status add_memory(arena *memory, const plan_tile *tile, const loop_nest *place,
                               uint32_t at, uint32_t operand, plan_kernel *kernel)
{
    const isa_instruction *i = tile->instruction;
    byte_range all = footprint_range(kernel->source, i, operand, place);
    plan_memory entry = {.arg = i->operand[operand].arg,
                         .stores = operand == 0,
                         .low = all.low,
                         .high = all.high,
                         .at = at,
                         .twin = PLAN_NO_TWIN};
    return VEC_PUSH(memory, &kernel->memory, entry);
}

// --- Loads and stores of the same elements

static bool same_parameters(const isa_kernel *kernel, uint16_t a, uint16_t b)
{
    if (a == b) return true;
    if (a == ISA_NO_SLOT || b == ISA_NO_SLOT) return false;
    for (uint32_t core = 0; core < ISA_CORES; core++) {
        const int64_t *row = kernel->parameters + (size_t)core * kernel->slot_count;
        if (isa_is_active(kernel, core) && row[a] != row[b]) return false;
    }
    return true;
}

// In every iteration the two touch the same elements.
static bool same_elements(const isa_kernel *kernel, const plan_tile *load, const plan_tile *store)
{
    const isa_operand *a = &load->instruction->operand[1], *b = &store->instruction->operand[0];
    bool same = a->arg == b->arg && a->offset == b->offset &&
                same_parameters(kernel, a->slot, b->slot) && load->dim_count == store->dim_count &&
                memcmp(a->loop_stride, b->loop_stride, sizeof a->loop_stride) == 0;
    for (uint32_t d = 0; same && d < load->dim_count; d++)
        same = load->extent[d] == store->extent[d] && load->stride[1][d] == store->stride[0][d];
    return same;
}

static bool touches(const plan_tile *tile, const isa_operand *memory, bool written)
{
    for (uint32_t o = written ? 0 : 1; o < (written ? 1 : tile->instruction->operand_count); o++) {
        const isa_operand *operand = &tile->instruction->operand[o];
        if (operand->space == ISA_SPACE_MEMORY && operand->arg == memory->arg) return true;
    }
    return false;
}

// No instruction that is left writes the argument between the load and the last one that may read
// in its stead: reads of the loaded elements come before their writes.
static bool reads_come_first(plan_tile *const *left, const isa_operand *memory, uint32_t load,
                             uint32_t end)
{
    bool written = false;
    for (uint32_t at = load; at < end; at++) {
        if (!left[at]) continue;
        if (written && touches(left[at], memory, false)) return false;
        written = written || touches(left[at], memory, true);
    }
    return true;
}

// A product that took in loops reads and writes in an order of its own.
static bool has_products(plan_tile *const *left, uint32_t begin, uint32_t end)
{
    for (uint32_t at = begin; at < end; at++)
        if (left[at] && left[at]->product && !left[at]->product->adds) return true;
    return false;
}

static void find_twins(plan_tile *const *tiles, plan_tile *const *left, uint32_t end,
                       plan_kernel *kernel)
{
    for (uint32_t l = 0; l < kernel->memory.count; l++) {
        plan_memory *load = &kernel->memory.items[l];
        const isa_instruction *i = tiles[load->at]->instruction;
        if (load->stores || i->opcode != ISA_LOAD) continue;
        for (uint32_t s = 0; s < kernel->memory.count; s++) {
            const plan_memory *store = &kernel->memory.items[s];
            if (!store->stores || store->at < load->at) continue;
            if (same_elements(kernel->source, tiles[load->at], tiles[store->at]) &&
                reads_come_first(left, &i->operand[1], load->at, end))
                load->twin = s;
        }
    }
}

static spyre_status list_memory(const translation *t, plan_kernel *kernel)
{
    loop_nest place = kernel->around;
    for (uint32_t at = kernel->begin; at < kernel->end; at++) {
        const isa_instruction *i = t->program->code.items[at];
        loop_nest_follow(&place, i, at);
        if (isa_stores(i->opcode)) TRY(add_memory(t->memory, t->tiles[at], &place, at, 0, kernel));
        if (i->opcode == ISA_LOAD || i->opcode == ISA_GATHER)
            TRY(add_memory(t->memory, t->tiles[at], &place, at, 1, kernel));
    }
    if (!has_products(t->forwarded, kernel->begin, kernel->end))
        find_twins(t->tiles, t->forwarded, kernel->end, kernel);
    return NULL;
}

// The argument of `a` lies `distance` bytes behind that of `b`.
static bool apart(const plan_memory *a, const plan_memory *b, int64_t distance)
{
    return a->high + distance <= b->low || b->high <= a->low + distance;
}

// Within one argument a store may change what a load reads, wherever the argument lies.
static bool stores_upon_loads(const plan_kernel *kernel)
{
    for (uint32_t n = 0; n < kernel->memory.count; n++) {
        const plan_memory *load = &kernel->memory.items[n];
        for (uint32_t s = 0; s < kernel->memory.count && !load->stores; s++) {
            const plan_memory *store = &kernel->memory.items[s];
            if (!store->stores || s == load->twin || store->arg != load->arg) continue;
            if (!apart(load, store, 0)) return true;
        }
    }
    return false;
}

static spyre_status list_tiles(const translation *t, plan_kernel *kernel)
{
    TRY(list_memory(t, kernel));
    if (stores_upon_loads(kernel)) return NULL;
    uint32_t count = kernel->end - kernel->begin;
    kernel->group = core_group_of(kernel->source, t->forwarded + kernel->begin, count);
    kernel->only_matmuls = kernel->has_matmul;
    for (uint32_t at = kernel->begin; at < kernel->end; at++)
        if (t->forwarded[at] && !t->forwarded[at]->product) kernel->only_matmuls = false;
    return plan_list_steps(t->memory, t->program, t->forwarded, ISA_QUEUE_SEQ, kernel);
}

spyre_status card_pass_list_steps(translation *t)
{
    for (uint32_t n = 0; n < t->loaded->phases.count; n++) {
        plan_kernel *kernel = t->loaded->phases.items[n].kernel;
        if (kernel && kernel->in_order) TRY(list_tiles(t, kernel));
    }
    return NULL;
}

// --- At launch

static bool inside(const plan_memory *entry, const card_argument *arguments)
{
    return entry->low >= 0 && (uint64_t)entry->high <= arguments[entry->arg].limit;
}

bool tiles_inside(const plan_kernel *kernel, const card_argument *arguments)
{
    for (uint32_t n = 0; n < kernel->memory.count; n++)
        if (!inside(&kernel->memory.items[n], arguments)) return false;
    return true;
}

bool tiles_allowed(const plan_kernel *kernel, const card_argument *arguments)
{
    if (!kernel->steps[ISA_QUEUE_SEQ] || !tiles_inside(kernel, arguments)) return false;
    for (uint32_t n = 0; n < kernel->memory.count; n++) {
        const plan_memory *load = &kernel->memory.items[n];
        for (uint32_t s = 0; s < kernel->memory.count && !load->stores; s++) {
            const plan_memory *store = &kernel->memory.items[s];
            if (!store->stores || s == load->twin) continue;
            uint64_t distance = arguments[load->arg].base - arguments[store->arg].base;
            if (!apart(load, store, (int64_t)distance)) return false;
        }
    }
    return true;
}
