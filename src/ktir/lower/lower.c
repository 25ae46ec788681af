// SPDX-License-Identifier: Apache-2.0
//
// One pass over the function for every 32 compute tiles, or one for all of them: numbers are
// evaluated, tensors become instructions.
#include "ktir/lower/lower.h"

#include <string.h>

#include "ktir/lower/lowering.h"
#include "ktir/parameters.h"

static spyre_status lower_op(lowering *w, uint32_t number)
{
    const ktir_op *op = &w->m->ops.items[number];
    ktir_form form = ktir_op_describe(op->opcode)->form;
    bool done;
    TRY(lower_indices(w, op, &done));
    if (done) return NULL;
    switch ((int)form) {
    case KTIR_FORM_FOR: return lower_for(w, op);
    case KTIR_FORM_IF: return lower_if(w, op);
    case KTIR_FORM_WHILE: return lower_while(w, op);
    case KTIR_FORM_PARALLEL: case KTIR_FORM_FORALL: return lower_nest(w, op);
    case KTIR_FORM_SCF_REDUCE: return lower_scf_reduce(w, op);
    case KTIR_FORM_END: case KTIR_FORM_MEMORY_VIEW:
    case KTIR_FORM_DISTRIBUTED_VIEW: case KTIR_FORM_ACCESS_TILE: case KTIR_FORM_INDIRECT_TILE:
    case KTIR_FORM_PRODUCE:
        return NULL;                    // where they are used
    case KTIR_FORM_LOAD: return lower_load(w, op);
    case KTIR_FORM_STORE: return lower_store(w, op);
    case KTIR_FORM_TILE_REDUCE: return lower_tile_reduce(w, op);
    case KTIR_FORM_FILL: case KTIR_FORM_BROADCAST: case KTIR_FORM_TRANSPOSE:
    case KTIR_FORM_EMPTY: case KTIR_FORM_SPLAT: case KTIR_FORM_EXTRACT: case KTIR_FORM_RESHAPE:
    case KTIR_FORM_FROM_ELEMENTS: case KTIR_FORM_TENSOR_CAST: case KTIR_FORM_DIM:
        return lower_shape(w, op);
    case KTIR_FORM_SLICE:
        return op->opcode == KTIR_OP_SUBVIEW ? NULL : lower_shape(w, op);
    case KTIR_FORM_MATMUL: case KTIR_FORM_LINALG_REDUCE: case KTIR_FORM_GENERIC:
    case KTIR_FORM_MAP: case KTIR_FORM_LINALG_INDEX:
        return lower_linalg(w, op);
    default: return lower_elementwise(w, op);
    }
}

// --- Who reads a value last

static void find_parents(const lowering *w)
{
    const ktir_module *m = w->m;
    for (uint32_t n = 0; n < m->ops.count; n++) w->parent[n] = UINT32_MAX;
    for (uint32_t n = 0; n < m->ops.count; n++)
        for (uint32_t r = 0; r < m->ops.items[n].region_count; r++) {
            const ktir_region *region = ktir_op_region(m, &m->ops.items[n], r);
            for (uint32_t k = region->begin; k < region->end; k = m->ops.items[k].end)
                w->parent[k] = n;
        }
}

// The operation whose region has the value, or UINT32_MAX for the function's own.
static void find_owners(const lowering *w, uint32_t *owner)
{
    const ktir_module *m = w->m;
    for (uint32_t v = 0; v < m->values.count; v++) {
        uint32_t definition = m->values.items[v].definition;
        owner[v] = definition == UINT32_MAX ? UINT32_MAX : w->parent[definition];
    }
    for (uint32_t n = 0; n < m->ops.count; n++)
        for (uint32_t r = 0; r < m->ops.items[n].region_count; r++) {
            const ktir_region *region = ktir_op_region(m, &m->ops.items[n], r);
            for (uint32_t a = 0; a < region->argument_count; a++)
                owner[region->first_argument + a] = n;
        }
}

// A use inside of a region that does not have the value lasts until the region's operation ends.
static spyre_status find_last_uses(lowering *w)
{
    const ktir_module *m = w->m;
    uint32_t *owner = ARENA_NEW(w->memory, uint32_t, m->values.count + 1);
    TRY_ALLOC(owner);
    find_parents(w);
    find_owners(w, owner);
    for (uint32_t v = 0; v < m->values.count; v++) {
        uint32_t definition = m->values.items[v].definition;
        w->last_use[v] = definition == UINT32_MAX ? 0 : definition;
    }
    for (uint32_t n = 0; n < m->ops.count; n++)
        for (uint32_t o = 0; o < m->ops.items[n].operand_count; o++) {
            uint32_t value = ktir_operand(m, &m->ops.items[n], o), at = n;
            while (at != UINT32_MAX && w->parent[at] != owner[value]) at = w->parent[at];
            uint32_t last = at == UINT32_MAX ? n : m->ops.items[at].end - 1;
            if (last > w->last_use[value]) w->last_use[value] = last;
        }
    // What a region yields to a reduction between tiles is read there.
    for (uint32_t n = 0; n < m->ops.count; n++) {
        const ktir_op *op = &m->ops.items[n];
        if (op->opcode != KTIR_OP_TILE_REDUCE) continue;
        const ktir_op *produce = ktir_maker(m, op, 0);
        const ktir_region *region = ktir_op_region(m, produce, 0);
        uint32_t value = ktir_operand(m, &m->ops.items[region->end - 1], 0);
        if (w->last_use[value] < op->end - 1) w->last_use[value] = op->end - 1;
    }
    return NULL;
}

// --- The program

static spyre_status begin_arguments(lowering *w)
{
    const ktir_lowering *call = w->call;
    const ktir_region *body = &call->function->body;
    uint32_t count = 0;
    w->memory_of = ARENA_NEW(w->memory, int32_t, body->argument_count + 1);
    TRY_ALLOC(w->memory_of);
    for (uint32_t a = 0; a < body->argument_count; a++)
        w->memory_of[a] = call->arguments[a].is_memory ? (int32_t)count++ : LOWERING_NO_MEMORY;
    w->first_placed = w->memory_count = count;
    for (uint32_t p = 0; p < call->placed_count; p++)
        w->memory_count += call->placed[p].is_argument;
    int64_t *bytes = ARENA_NEW(w->memory, int64_t, w->memory_count + 2);
    TRY_ALLOC(bytes);
    for (uint32_t a = 0; a < body->argument_count; a++)
        if (w->memory_of[a] >= 0) bytes[w->memory_of[a]] = call->arguments[a].byte_count;
    for (uint32_t p = 0; count + p < w->memory_count; p++)
        bytes[count + p] = call->placed[p].byte_count;
    bytes[w->memory_count] = LOWER_COUNTED * (int64_t)sizeof(int32_t);
    w->program->arg_count = w->memory_count;
    w->program->arg_bytes = bytes;
    return NULL;
}

static spyre_status set_arguments(lowering *w)
{
    const ktir_region *body = &w->call->function->body;
    for (uint32_t a = 0; a < body->argument_count; a++) {
        const ktir_argument *argument = &w->call->arguments[a];
        lowered_cell *cell = &w->cells[body->first_argument + a];
        if (!argument->is_memory && ktir_element_describe(argument->element)->is_float) {
            cell->tensor = ARENA_NEW(w->memory, lowered_tensor, 1);
            TRY_ALLOC(cell->tensor);
            *cell->tensor = (lowered_tensor){
                .is_constant = true, .element = argument->element,
                .format = ktir_element_describe(argument->element)->format};
            uint8_t rounded[8];
            element_store(rounded, cell->tensor->format, argument->real);
            cell->tensor->value = element_load(rounded, cell->tensor->format);
            continue;
        }
        cell->index = lower_index_of(w, argument->is_memory ? 0 : argument->integer);
        TRY_ALLOC(cell->index);
        cell->index->memory = w->memory_of[a];
    }
    return NULL;
}

// Forgets all values but the arguments, and all of LX.
static spyre_status begin_wave(lowering *w, uint32_t first)
{
    uint32_t left = w->tiles - first;
    w->first_tile = first;
    w->present = w->active = left >= ISA_CORES ? UINT32_MAX : (1u << left) - 1;
    w->heap.count = 0;
    memset(w->cells, 0, w->m->values.count * sizeof *w->cells);
    return set_arguments(w);
}

static spyre_status lower_wave(lowering *w, uint32_t first)
{
    TRY(begin_wave(w, first));
    TRY(lower_begin_lx(w));
    TRY(lower_region(w, &w->call->function->body));
    TRY(lower_end_lx(w));
    return lower_end_kernel(w);
}

// Whole waves as a loop if that goes, and what is left one by one.
static spyre_status lower_waves(lowering *w)
{
    uint32_t whole = w->tiles / ISA_CORES;
    bool rolled = false;
    for (int form = 0; whole > 1 && form < 2 && !rolled; form++) {
        TRY(begin_wave(w, 0));
        TRY(lower_wave_loop(w, whole, form == 1, &rolled));
    }
    for (uint32_t first = rolled ? whole * ISA_CORES : 0; first < w->tiles; first += ISA_CORES)
        TRY(lower_wave(w, first));
    return NULL;
}

spyre_status ktir_lower(const ktir_module *m, const ktir_lowering *call, arena *memory,
                        isa_program **out_program, ktir_places *out_places)
{
    lowering *w = ARENA_NEW(memory, lowering, 1);
    TRY_ALLOC(w);
    *w = (lowering){.m = m, .call = call, .memory = memory, .tiles = 1, .op = lower_op};
    for (uint32_t d = 0; d < call->grid_rank; d++) w->tiles *= (uint32_t)call->grid[d];
    w->program = isa_program_create(memory);
    w->cells = ARENA_NEW(memory, lowered_cell, m->values.count + 1);
    w->last_use = ARENA_NEW(memory, uint32_t, m->values.count + 1);
    w->parent = ARENA_NEW(memory, uint32_t, m->ops.count + 1);
    if (!w->program || !w->cells || !w->last_use || !w->parent) return status_no_memory();
    TRY(begin_arguments(w));
    TRY(find_last_uses(w));
    TRY(lower_waves(w));
    w->program->arg_count += w->counts;
    *out_program = w->program;
    *out_places = w->places;
    return isa_append(w->program, &(isa_instruction){.opcode = ISA_HALT});
}
