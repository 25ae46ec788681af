// SPDX-License-Identifier: Apache-2.0
//
// Loops and branches. A loop that all cores run as often becomes a hardware loop inside of the
// open kernel; one whose body needs kernels of its own stands around them; one whose body is not
// affine is unrolled. Cores that run a loop more often than others go on alone, as kernels of
// fewer cores.
#include <string.h>

#include "ktir/lower/lowering.h"

// What an attempt changes: a failed one is taken back.
typedef struct {
    uint32_t code, kernels, known, depth, kernel_depth, active;
    bool in_kernel;
    isa_queue last_queue;
    lowered_slots slots;
    lowered_heap heap;
} attempt;

static void save(const lowering *w, attempt *a)
{
    *a = (attempt){w->program->code.count, w->program->kernels.count, w->known.count, w->depth,
                   w->kernel_depth, w->active, w->in_kernel, w->last_queue, w->slots, w->heap};
}

static void take_back(lowering *w, const attempt *a)
{
    w->program->code.count = a->code;
    w->program->kernels.count = a->kernels;
    w->known.count = a->known;
    w->depth = a->depth;
    w->kernel_depth = a->kernel_depth;
    w->active = a->active;
    w->in_kernel = a->in_kernel;
    w->last_queue = a->last_queue;
    w->slots = a->slots;                // a kernel that has begun since has slots of its own
    w->heap = a->heap;
}

// The first queue that works behind instruction `from`.
isa_queue lower_first_queue(const lowering *w, uint32_t from)
{
    for (uint32_t n = from; n < w->program->code.count; n++) {
        const isa_instruction *i = w->program->code.items[n];
        if (i->opcode == ISA_WAIT || i->opcode == ISA_SIGNAL || i->opcode == ISA_LOOP ||
            i->opcode == ISA_END_LOOP)
            continue;
        return isa_describe(i->opcode)->queue;
    }
    return ISA_QUEUE_SEQ;
}

spyre_status lower_region(lowering *w, const ktir_region *region)
{
    for (uint32_t n = region->begin; n < region->end; n = w->m->ops.items[n].end) {
        TRY(w->op(w, n));
        lower_free(w, w->m->ops.items[n].end - 1);
    }
    return NULL;
}

// Other cores than until now: another kernel. Inside of a hardware loop of the kernel the loop must
// stand around kernels instead.
static spyre_status set_active(lowering *w, const ktir_op *op, uint32_t cores)
{
    if (cores == w->active) return NULL;
    if (w->in_kernel && w->depth > w->kernel_depth) {
        w->wants_break = true;
        return LOWER_NO(w, op, "cores part inside of a loop");
    }
    TRY(lower_end_kernel(w));
    w->active = cores;
    return NULL;
}

// --- scf.for

typedef struct {
    const ktir_op *op;
    const ktir_region *body;
    const ktir_op *yield;               // or null
    lowered_index first, step;
    int64_t done;                       // iterations that earlier parts have made
} loop;

static const ktir_op *yield_of(const lowering *w, const ktir_region *body)
{
    const ktir_op *last = ktir_last_op(w->m, body);
    return last && last->opcode == KTIR_OP_SCF_YIELD ? last : NULL;
}

// Hands the yielded tensors to the places of the arguments. Several go through scratch, so that a
// loop may swap them.
static spyre_status hand_on(lowering *w, const loop *l)
{
    uint32_t count = l->yield ? l->yield->operand_count : 0;
    lowered_tensor held[16];
    if (count > 16) return LOWER_NO(w, l->op, "more than 16 values handed on");
    for (uint32_t n = 0; n < count; n++) {
        const lowered_cell *from = lower_operand(w, l->yield, n);
        const lowered_cell *to = &w->cells[l->body->first_argument + 1 + n];
        if (!to->tensor) continue;
        const lowered_tensor *t = from->tensor;
        held[n] = *t;
        if (lower_is_place(t, to->tensor) || count == 1 || t->is_constant) continue;
        TRY(lower_scratch_like(w, l->yield, t->format, t, &held[n]));
        TRY(lower_copy(w, l->yield, &held[n], t));
    }
    for (uint32_t n = 0; n < count; n++) {
        const lowered_tensor *to = w->cells[l->body->first_argument + 1 + n].tensor;
        if (to) TRY(lower_hand(w, l->yield, to, &held[n]));
    }
    return NULL;
}

static spyre_status body(lowering *w, const loop *l, const lowered_index *induction)
{
    lowered_index *copy = lower_index_of(w, 0);
    TRY_ALLOC(copy);
    *copy = *induction;
    w->cells[l->body->first_argument].index = copy;
    for (uint32_t n = l->body->begin; n < l->body->end; n = w->m->ops.items[n].end) {
        const ktir_op *op = &w->m->ops.items[n];
        if (op == l->yield) TRY(hand_on(w, l));
        else TRY(w->op(w, n));
        lower_free(w, op->end - 1);
    }
    return NULL;
}

// A loop of the arguments that are numbers of the cores must be unrolled: they are not affine.
static bool carries_numbers(const lowering *w, const loop *l)
{
    for (uint32_t n = 3; n < l->op->operand_count; n++)
        if (lower_operand(w, l->op, n)->index) return true;
    return false;
}

static lowered_index induction_at(const lowering *w, const loop *l, int64_t iteration)
{
    lowered_index x = l->first;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (w->active >> c & 1) x.at[c] += iteration * l->step.at[c];
    return x;
}

static spyre_status rolled(lowering *w, const loop *l, int64_t trips, bool around)
{
    lowered_index x = induction_at(w, l, l->done);
    int64_t step;
    if (!lower_uniform(w, &l->step, &step)) {
        w->wants_unroll = true;
        return LOWER_NO(w, l->op, "steps that differ between cores");
    }
    if (around) TRY(lower_end_kernel(w));
    x.loop[w->depth < ISA_MAX_LOOPS ? w->depth : 0] += step;
    TRY(lower_loop(w, l->op, trips));
    uint32_t begin = w->program->code.count;
    TRY(body(w, l, &x));
    if (around) TRY(lower_end_kernel(w));
    else if (w->program->code.count == begin) {         // nothing to do in it
        w->depth--;
        w->program->code.count--;
        return NULL;
    }
    return lower_end_loop(w, around ? ISA_QUEUE_SEQ : lower_first_queue(w, begin));
}

static spyre_status unrolled(lowering *w, const loop *l, int64_t trips)
{
    if (trips > LOWERING_MOST_UNROLLED)
        return LOWER_NO(w, l->op, "%lld iterations that cannot be a loop of the card",
                        (long long)trips);
    for (int64_t n = 0; n < trips; n++) {
        lowered_index x = induction_at(w, l, l->done + n);
        TRY(body(w, l, &x));
        for (uint32_t r = 0; l->yield && r < l->yield->operand_count; r++) {
            lowered_index *number = lower_operand(w, l->yield, r)->index;
            if (number) w->cells[l->body->first_argument + 1 + r].index = number;
        }
    }
    return NULL;
}

// As many iterations as the interpreter makes operations before it says so.
static spyre_status check_end(const lowering *w, const loop *l, int64_t trips)
{
    int64_t left = LOWERING_MOST_ITERATIONS;
    for (uint32_t d = 0; d < w->depth; d++) left /= w->trips[d];
    if (trips <= left) return NULL;
    return ktir_error(w->m, l->op, SPYRE_DEVICE_FAULT,
                      "more than %d iterations: it does not end", LOWERING_MOST_ITERATIONS);
}

// `trips` iterations of all active cores: the first form that goes.
static spyre_status iterate(lowering *w, const loop *l, int64_t trips)
{
    attempt before;
    TRY(check_end(w, l, trips));
    save(w, &before);
    bool roll = trips > 1 && w->depth < ISA_MAX_LOOPS && !carries_numbers(w, l);
    bool outside = !w->in_kernel || w->depth == w->kernel_depth;
    for (int form = 0; roll && form < 2; form++) {
        if (form == 0 && !w->in_kernel) {
            // A kernel begins with the first instruction: let it begin in front of the loop.
            uint16_t slot;
            int64_t nothing[ISA_CORES] = {0};
            TRY(lower_slot(w, l->op, nothing, &slot));
        }
        w->wants_break = w->wants_unroll = false;
        spyre_status status = rolled(w, l, trips, form == 1);
        if (!status) return NULL;
        bool again = w->wants_unroll || (w->wants_break && outside && form == 0);
        if (!again) return status;
        spyre_status_free(status);
        take_back(w, &before);
        if (w->wants_unroll) roll = false;
    }
    w->wants_break = w->wants_unroll = false;
    return unrolled(w, l, trips);
}

// --- Waves of compute tiles

static spyre_status wave_body(lowering *w, uint32_t waves, bool around)
{
    const ktir_region *function = &w->call->function->body;
    const ktir_op *op = &w->m->ops.items[function->begin];
    const int64_t nothing[ISA_CORES] = {0};
    uint16_t slot;
    w->waves = waves;
    if (!around) TRY(lower_slot(w, op, nothing, &slot));    // the kernel begins before the loop
    TRY(lower_loop(w, op, waves));
    uint32_t begin = w->program->code.count;
    TRY(lower_region(w, function));
    if (w->program->code.count == begin) return LOWER_NO(w, op, "nothing to do");
    if (around) TRY(lower_end_kernel(w));
    TRY(lower_end_loop(w, around ? ISA_QUEUE_SEQ : lower_first_queue(w, begin)));
    return lower_end_kernel(w);
}

spyre_status lower_wave_loop(lowering *w, uint32_t waves, bool around, bool *out_done)
{
    attempt before;
    save(w, &before);
    *out_done = false;
    if (w->call->function->body.begin == w->call->function->body.end) return NULL;
    spyre_status status = wave_body(w, waves, around);
    w->wants_break = w->wants_unroll = false;
    w->waves = 0;
    *out_done = !status;
    if (status) take_back(w, &before);
    if (spyre_status_code(status) == SPYRE_OUT_OF_MEMORY) return status;
    spyre_status_free(status);                  // one by one tells which compute tile
    return NULL;
}

// --- Bounds

// Iterations of a core; negative bounds give none.
static spyre_status count_trips(lowering *w, const ktir_op *op, uint32_t core, int64_t *out)
{
    int64_t begin = lower_operand(w, op, 0)->index->at[core];
    int64_t end = lower_operand(w, op, 1)->index->at[core];
    int64_t step = lower_operand(w, op, 2)->index->at[core], distance;
    if (step < 1)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "step %lld: the loop never ends",
                          (long long)step);
    *out = 0;
    if (begin >= end) return NULL;
    if (__builtin_sub_overflow(end, begin, &distance))
        return LOWER_NO(w, op, "more than 2^63 iterations");
    *out = distance / step + (distance % step != 0);
    return NULL;
}

static spyre_status check_bounds(lowering *w, const ktir_op *op)
{
    for (uint32_t n = 0; n < 3; n++) {
        const lowered_index *x = lower_operand(w, op, n)->index;
        if (!x || x->memory != LOWERING_NO_MEMORY)
            return LOWER_NO(w, op, "a bound that is no number of the cores");
        for (uint32_t d = 0; d < ISA_MAX_LOOPS; d++) {
            if (!x->loop[d]) continue;
            w->wants_unroll = true;
            return LOWER_NO(w, op, "a bound that changes in a loop around it");
        }
    }
    return NULL;
}

// A place in LX for every tensor that is handed on; it becomes the result.
static spyre_status begin_arguments(lowering *w, const loop *l)
{
    for (uint32_t n = 3; n < l->op->operand_count; n++) {
        const lowered_cell *start = lower_operand(w, l->op, n);
        uint32_t argument = l->body->first_argument + n - 2, result = l->op->first_result + n - 3;
        if (start->index) {
            w->cells[argument].index = start->index;
            continue;
        }
        uint32_t last = w->last_use[result], end = l->op->end - 1;
        lowered_tensor *place = ARENA_NEW(w->memory, lowered_tensor, 1);
        TRY_ALLOC(place);
        TRY(lower_scratch(w, l->op, start->tensor->format, lower_sizes(start->tensor),
                          last > end ? last : end, place));
        place->element = start->tensor->element;
        TRY(lower_copy(w, l->op, place, start->tensor));
        w->cells[argument].tensor = place;
        w->cells[result].tensor = place;
    }
    return NULL;
}

static void end_numbers(lowering *w, const loop *l)
{
    for (uint32_t n = 3; n < l->op->operand_count; n++) {
        lowered_index *number = w->cells[l->body->first_argument + n - 2].index;
        if (number) w->cells[l->op->first_result + n - 3].index = number;
    }
}

spyre_status lower_for(lowering *w, const ktir_op *op)
{
    loop l = {.op = op, .body = ktir_op_region(w->m, op, 0)};
    int64_t trips[ISA_CORES] = {0};
    uint32_t all = w->active;
    TRY(check_bounds(w, op));
    l.first = *lower_operand(w, op, 0)->index;
    l.step = *lower_operand(w, op, 2)->index;
    l.yield = yield_of(w, l.body);
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if (all >> c & 1) TRY(count_trips(w, op, c, &trips[c]));
    TRY(begin_arguments(w, &l));
    lower_hold(w, op->end - 1);
    for (;;) {
        // The fewest iterations that are left, of the cores that have any.
        int64_t next = INT64_MAX;
        uint32_t cores = 0;
        for (uint32_t c = 0; c < ISA_CORES; c++) {
            if (!(all >> c & 1) || trips[c] <= l.done) continue;
            cores |= 1u << c;
            if (trips[c] < next) next = trips[c];
        }
        if (!cores) break;
        if (cores != all && carries_numbers(w, &l))
            return LOWER_NO(w, op, "numbers handed on while cores run it unequally often");
        TRY(set_active(w, op, cores));
        TRY(iterate(w, &l, next - l.done));
        l.done = next;
    }
    lower_let_go(w, op->end - 1);
    end_numbers(w, &l);
    return set_active(w, op, all);
}

// --- scf.if

static spyre_status branch(lowering *w, const ktir_op *op, uint32_t region, uint32_t cores)
{
    if (!cores) return NULL;
    const ktir_region *r = ktir_op_region(w->m, op, region);
    const ktir_op *yield = yield_of(w, r);
    TRY(set_active(w, op, cores));
    for (uint32_t n = r->begin; n < r->end; n = w->m->ops.items[n].end) {
        const ktir_op *inner = &w->m->ops.items[n];
        for (uint32_t k = 0; inner == yield && k < inner->operand_count; k++) {
            const lowered_cell *from = lower_operand(w, inner, k);
            lowered_cell *to = &w->cells[op->first_result + k];
            if (!from->tensor)
                return LOWER_NO(w, op, "a branch of some cores yields a number");
            if (!to->tensor) {
                lowered_tensor *place;
                TRY(lower_new(w, op, op->first_result + k, from->tensor->element,
                              lower_sizes(from->tensor), &place));
            }
            TRY(lower_hand(w, op, to->tensor, from->tensor));
        }
        if (inner != yield) TRY(w->op(w, n));
        lower_free(w, inner->end - 1);
    }
    return NULL;
}

spyre_status lower_if(lowering *w, const ktir_op *op)
{
    const lowered_index *condition = lower_operand(w, op, 0)->index;
    uint32_t all = w->active, holds = 0;
    if (!condition) return LOWER_NO(w, op, "a branch that depends on the data of a tensor");
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if ((all >> c & 1) && condition->at[c]) holds |= 1u << c;
    for (uint32_t r = 0; r < op->result_count; r++)
        w->cells[op->first_result + r] = (lowered_cell){0};
    TRY(branch(w, op, 0, holds));
    if (op->region_count > 1) TRY(branch(w, op, 1, all & ~holds));
    return set_active(w, op, all);
}
