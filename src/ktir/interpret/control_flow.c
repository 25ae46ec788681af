// SPDX-License-Identifier: Apache-2.0
//
// Control flow of the interpreter. A compute tile is a program counter and a stack of the regions
// of scf that it is in, so that it can stop at a reduction between compute tiles and go on later.
#include "ktir/interpret/interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "ktir/interpret/machine.h"

static spyre_status compute(tile *t, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    if (form <= KTIR_FORM_LINALG_UNARY) return machine_arith(t, op, form);
    if (form == KTIR_FORM_FILL || form == KTIR_FORM_BROADCAST || form == KTIR_FORM_TRANSPOSE ||
        (form >= KTIR_FORM_EMPTY && form <= KTIR_FORM_SLICE && op->opcode != KTIR_OP_SUBVIEW))
        return machine_shape(t, op, form);
    if (form <= KTIR_FORM_LINALG_INDEX) return machine_linalg(t, op, form);
    return machine_fault(t, op, "it cannot stand in a region of elements");
}

// --- Regions of scf

static spyre_status push(tile *t, const ktir_op *op, uint32_t region, int64_t value, int64_t end,
                         int64_t step)
{
    if (t->depth == sizeof t->frames / sizeof *t->frames)
        return machine_fault(t, op, "too many nested regions");
    t->frames[t->depth++] = (machine_frame){op, region, value, end, step};
    t->pc = ktir_op_region(t->x->m, op, region)->begin;
    return NULL;
}

static void set_induction(tile *t, const ktir_op *op, int64_t value)
{
    machine_set(t, ktir_op_region(t->x->m, op, 0)->first_argument,
                (ktir_number_value){.integer = value});
}

static spyre_status run_for(tile *t, const ktir_op *op)
{
    const ktir_region *region = ktir_op_region(t->x->m, op, 0);
    int64_t bounds[3];
    for (uint32_t n = 0; n < 3; n++) {
        const machine_cell *cell = machine_operand(t, op, n);
        if (cell->memory != MACHINE_NO_MEMORY)
            return machine_fault(t, op, "an address bounds the loop");
        bounds[n] = cell->number.integer;
    }
    if (bounds[2] < 1)
        return machine_fault(t, op, "step %lld: the loop never ends", (long long)bounds[2]);
    for (uint32_t n = 3; n < op->operand_count; n++) {
        uint32_t to = bounds[0] < bounds[1] ? region->first_argument + n - 2
                                            : op->first_result + n - 3;
        machine_copy(t, to, machine_operand(t, op, n));
    }
    if (bounds[0] >= bounds[1]) {
        t->pc = op->end;
        return NULL;
    }
    set_induction(t, op, bounds[0]);
    return push(t, op, 0, bounds[0], bounds[1], bounds[2]);
}

static spyre_status run_if(tile *t, const ktir_op *op)
{
    bool holds = machine_operand(t, op, 0)->number.integer;
    if (holds || op->region_count > 1) return push(t, op, holds ? 0 : 1, 0, 0, 0);
    t->pc = op->end;
    return NULL;
}

// Sets the induction variables of iteration `number`; *out_count is the number of iterations.
static spyre_status nest_indices(tile *t, const ktir_op *op, int64_t number, int64_t *out_count)
{
    const ktir_region *region = ktir_op_region(t->x->m, op, 0);
    uint32_t dims = region->argument_count;
    bool parallel = op->opcode == KTIR_OP_PARALLEL;
    *out_count = 1;
    for (uint32_t d = dims; d-- > 0;) {
        int64_t end = machine_operand(t, op, parallel ? dims + d : d)->number.integer;
        int64_t begin = parallel ? machine_operand(t, op, d)->number.integer : 0;
        int64_t step = parallel ? machine_operand(t, op, 2 * dims + d)->number.integer : 1;
        int64_t trips = 0;
        if (step < 1)
            return machine_fault(t, op, "step %lld: the loop never ends", (long long)step);
        if (begin < end && (__builtin_sub_overflow(end, begin, &trips) ||
                            __builtin_add_overflow(trips, step - 1, &trips)))
            return machine_fault(t, op, "more than 2^63 iterations");
        trips /= step;
        if (trips > 0)
            machine_set(t, region->first_argument + d,
                        (ktir_number_value){.integer = begin + number % trips * step});
        if (trips > 0) number /= trips;
        if (__builtin_mul_overflow(*out_count, trips, out_count))
            return machine_fault(t, op, "more than 2^63 iterations");
    }
    return NULL;
}

static spyre_status run_nest(tile *t, const ktir_op *op)
{
    int64_t count;
    TRY(nest_indices(t, op, 0, &count));
    if (op->result_count)
        machine_copy(t, op->first_result, machine_operand(t, op, op->operand_count - 1));
    if (count > 0) return push(t, op, 0, 0, count, 1);
    t->pc = op->end;
    return NULL;
}

// scf.reduce: the result of the nest combined with its operand.
static spyre_status run_scf_reduce(tile *t, const ktir_op *op)
{
    const machine_cell *yielded;
    if (op->operand_count && t->depth) {
        const ktir_region *region = ktir_op_region(t->x->m, op, 0);
        uint32_t result = t->frames[t->depth - 1].op->first_result;
        machine_copy(t, region->first_argument, &t->cells[result]);
        machine_copy(t, region->first_argument + 1, machine_operand(t, op, 0));
        TRY(machine_region(t, op, 0, &yielded));
        machine_copy(t, result, yielded);
    }
    t->pc = op->end;
    return NULL;
}

// What a yield hands on, all of it before any is set: a loop may swap its values.
static void hand_on(tile *t, const ktir_op *yield, uint32_t first, uint32_t to)
{
    machine_cell held[64];
    uint32_t count = yield->operand_count - first < 64 ? yield->operand_count - first : 64;
    for (uint32_t n = 0; n < count; n++) {
        held[n] = *machine_operand(t, yield, first + n);
        ktir_tensor_keep(held[n].tensor);
    }
    for (uint32_t n = 0; n < count; n++) {
        machine_copy(t, to + n, &held[n]);
        ktir_tensor_drop(held[n].tensor);
    }
}

// Between the regions of scf.while.
static void end_while_region(tile *t, machine_frame *frame, const ktir_op *end)
{
    const ktir_op *op = frame->op;
    bool goes_on = end->opcode == KTIR_OP_SCF_YIELD || machine_operand(t, end, 0)->number.integer;
    uint32_t first = end->opcode == KTIR_OP_CONDITION;
    if (!goes_on) {
        hand_on(t, end, first, op->first_result);
        t->depth--;
        t->pc = op->end;
        return;
    }
    frame->region = first;
    const ktir_region *next = ktir_op_region(t->x->m, op, frame->region);
    hand_on(t, end, first, next->first_argument);
    t->pc = next->begin;
}

// The end of the innermost region; `yield` may be null.
static spyre_status end_region(tile *t, const ktir_op *yield)
{
    machine_frame *frame = &t->frames[t->depth - 1];
    const ktir_op *op = frame->op;
    const ktir_region *region = ktir_op_region(t->x->m, op, frame->region);
    if (op->opcode == KTIR_OP_WHILE) {
        end_while_region(t, frame, yield);
        return NULL;
    }
    bool loops = op->opcode != KTIR_OP_IF;
    uint64_t left = (uint64_t)frame->end - (uint64_t)frame->value;
    bool more = loops && left > (uint64_t)frame->step;
    if (yield && op->result_count && op->opcode != KTIR_OP_PARALLEL)
        hand_on(t, yield, 0, more ? region->first_argument + 1 : op->first_result);
    if (!more) {
        t->depth--;
        t->pc = op->end;
        return NULL;
    }
    frame->value += frame->step;
    t->pc = region->begin;
    if (op->opcode == KTIR_OP_FOR) {
        set_induction(t, op, frame->value);
        return NULL;
    }
    int64_t count;
    return nest_indices(t, op, frame->value, &count);
}

// --- Operations

static void run_tile_id(tile *t, const ktir_op *op)
{
    int64_t rest = t->number;
    for (uint32_t r = 0; r < op->result_count; r++) {
        int64_t extent = r < t->x->call->grid_rank ? t->x->call->grid[r] : 1;
        bool last = r + 1 == op->result_count;
        machine_set(t, op->first_result + r,
                    (ktir_number_value){.integer = last ? rest : rest % extent});
        rest /= extent;
    }
}

static spyre_status step(tile *t, const ktir_op *op)
{
    ktir_form form = ktir_op_describe(op->opcode)->form;
    t->pc = op->end;
    switch ((int)form) {
    case KTIR_FORM_FOR: return run_for(t, op);
    case KTIR_FORM_IF: return run_if(t, op);
    case KTIR_FORM_WHILE:
        hand_on(t, op, 0, ktir_op_region(t->x->m, op, 0)->first_argument);
        return push(t, op, 0, 0, 0, 0);
    case KTIR_FORM_PARALLEL: case KTIR_FORM_FORALL: return run_nest(t, op);
    case KTIR_FORM_SCF_REDUCE: return run_scf_reduce(t, op);
    case KTIR_FORM_END:
        if (t->depth) return end_region(t, op);
        t->state = MACHINE_ENDED;
        return NULL;
    case KTIR_FORM_TILE_ID: run_tile_id(t, op); return NULL;
    // Views and access tiles are evaluated where they are used.
    case KTIR_FORM_MEMORY_VIEW: case KTIR_FORM_DISTRIBUTED_VIEW: case KTIR_FORM_ACCESS_TILE:
    case KTIR_FORM_INDIRECT_TILE: return NULL;
    case KTIR_FORM_LOAD: return machine_load(t, op);
    case KTIR_FORM_STORE: return machine_store(t, op);
    case KTIR_FORM_PRODUCE: return machine_produce(t, op);
    case KTIR_FORM_TILE_REDUCE:
        t->state = MACHINE_WAITS;
        t->waiting = op;
        return NULL;
    default: return op->opcode == KTIR_OP_SUBVIEW ? NULL : compute(t, op);
    }
}

static bool region_is_over(const tile *t)
{
    if (!t->depth) return false;
    const machine_frame *frame = &t->frames[t->depth - 1];
    return t->pc == ktir_op_region(t->x->m, frame->op, frame->region)->end;
}

// Runs until it ends or waits.
static spyre_status run_tile(tile *t)
{
    const ktir_module *m = t->x->m;
    uint64_t most = t->x->call->most_steps ? t->x->call->most_steps : KTIR_MOST_STEPS;
    while (t->state == MACHINE_RUNS) {
        bool over = region_is_over(t);          // without a yield
        const ktir_op *op = over ? t->frames[t->depth - 1].op : &m->ops.items[t->pc];
        if (++t->steps > most)
            return machine_fault(t, t->depth ? t->frames[t->depth - 1].op : op,
                                 "more than %llu operations: it does not end",
                                 (unsigned long long)most);
        TRY(over ? end_region(t, NULL) : step(t, op));
    }
    return NULL;
}

static spyre_status run_all(machine *x)
{
    for (bool moved = true; moved;) {
        for (uint32_t n = 0; n < x->tiles; n++) TRY(run_tile(&x->tile[n]));
        TRY(machine_deliver(x, &moved));
    }
    for (uint32_t n = 0; n < x->tiles; n++)
        if (x->tile[n].state == MACHINE_WAITS) return machine_deadlock(&x->tile[n]);
    return NULL;
}

// --- Beginning and end

static int64_t smallest_element(const ktir_module *m)
{
    for (uint32_t n = 0; n < m->ops.count; n++) {
        const ktir_op *op = &m->ops.items[n];
        if (op->opcode == KTIR_OP_MEMORY_VIEW &&
            ktir_element_describe(ktir_result_type(m, op)->element)->bytes == 1)
            return 1;
    }
    return 2;
}

static bool watch(const machine *x, machine_memory *memory, uint8_t *bytes, int64_t byte_count)
{
    memory->bytes = bytes;
    memory->byte_count = byte_count;
    memory->accesses = calloc((size_t)(byte_count / x->unit) + 1, sizeof *memory->accesses);
    return memory->accesses;
}

static bool begin_memories(machine *x)
{
    const ktir_call *call = x->call;
    uint32_t count = call->function->body.argument_count;
    for (uint32_t a = 0; a < count; a++) {
        const ktir_argument *argument = &call->arguments[a];
        if (argument->is_memory &&
            !watch(x, &x->arguments[a], argument->bytes, argument->byte_count))
            return false;
    }
    for (uint32_t p = 0; p < call->placed_count; p++) {
        const ktir_placed *placed = &call->placed[p];
        if (!watch(x, &x->placed[p], placed->bytes, placed->byte_count)) return false;
    }
    for (uint32_t n = 0; n < x->tiles; n++) {
        bool given = call->lx && call->lx[n].bytes;
        uint8_t *bytes = given ? call->lx[n].bytes : calloc(1, KTIR_LX_BYTES);
        if (!bytes) return false;
        if (!watch(x, &x->lx[n], bytes, KTIR_LX_BYTES)) return false;
        if (!given) x->lx[n].known = calloc(1, KTIR_LX_BYTES / 8);
        if (!given && !x->lx[n].known) return false;
    }
    return true;
}

static bool begin_tile(machine *x, uint32_t number)
{
    const ktir_call *call = x->call;
    const ktir_region *body = &call->function->body;
    tile *t = &x->tile[number];
    t->x = x;
    t->number = number;
    t->pc = body->begin;
    t->cells = calloc(x->m->values.count + 1, sizeof *t->cells);
    t->deliveries = calloc(x->m->ops.count + 1, sizeof *t->deliveries);
    if (!t->cells || !t->deliveries) return false;
    x->clocks[(size_t)number * x->tiles + number] = 1;
    for (uint32_t v = 0; v < x->m->values.count; v++) t->cells[v].memory = MACHINE_NO_MEMORY;
    for (uint32_t a = 0; a < body->argument_count; a++) {
        machine_cell *cell = &t->cells[body->first_argument + a];
        if (call->arguments[a].is_memory) cell->memory = (int32_t)a;
        else if (ktir_element_describe(call->arguments[a].element)->is_float)
            cell->number.real = ktir_round(call->arguments[a].element, call->arguments[a].real);
        else cell->number.integer = ktir_wrap(call->arguments[a].element,
                                              call->arguments[a].integer);
    }
    return true;
}

static bool begin(machine *x)
{
    uint32_t arguments = x->call->function->body.argument_count;
    x->arguments = calloc(arguments + 1u, sizeof *x->arguments);
    x->placed = calloc(x->call->placed_count + 1u, sizeof *x->placed);
    x->lx = calloc(x->tiles, sizeof *x->lx);
    x->clocks = calloc((size_t)x->tiles * x->tiles, sizeof *x->clocks);
    x->tile = calloc(x->tiles, sizeof *x->tile);
    bool made = x->arguments && x->placed && x->lx && x->clocks && x->tile;
    if (!made || !begin_memories(x)) return false;
    for (uint32_t n = 0; n < x->tiles; n++)
        if (!begin_tile(x, n)) return false;
    return true;
}

static void end(machine *x)
{
    uint32_t arguments = x->call->function->body.argument_count;
    for (uint32_t n = 0; x->tile && n < x->tiles; n++) {
        for (uint32_t v = 0; x->tile[n].cells && v < x->m->values.count; v++)
            ktir_tensor_drop(x->tile[n].cells[v].tensor);
        free(x->tile[n].cells);
        free(x->tile[n].deliveries);
    }
    for (uint32_t n = 0; x->lx && n < x->tiles; n++) {
        if (!x->call->lx || !x->call->lx[n].bytes) free(x->lx[n].bytes);
        free(x->lx[n].known);
        free(x->lx[n].accesses);
    }
    for (uint32_t a = 0; x->arguments && a < arguments; a++) free(x->arguments[a].accesses);
    for (uint32_t p = 0; x->placed && p < x->call->placed_count; p++)
        free(x->placed[p].accesses);
    free(x->placed);
    free(x->arguments);
    free(x->lx);
    free(x->clocks);
    free(x->tile);
}

spyre_status ktir_run(const ktir_module *m, const ktir_call *call)
{
    machine x = {.m = m, .call = call, .tiles = 1, .unit = smallest_element(m),
                 .compute = compute};
    for (uint32_t d = 0; d < call->grid_rank; d++) x.tiles *= (uint32_t)call->grid[d];
    x.memory = arena_create();
    TRY_ALLOC(x.memory);
    spyre_status status = readers_begin(&x.readers, x.memory, x.tiles);
    if (!status) status = begin(&x) ? run_all(&x) : status_no_memory();
    end(&x);
    arena_destroy(x.memory);
    return status;
}
