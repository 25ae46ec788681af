// SPDX-License-Identifier: Apache-2.0
//
// scf.while, whose condition is a number of the cores: iteration after iteration, as long as it
// holds on any; cores on which it does not hold any more stay behind. Tensors that are handed on
// have two places in LX: what the first region takes, and what it hands to the second one and, in
// the end, to whoever reads the results.
#include "ktir/lower/lowering.h"

enum { MOST_HANDED = 16 };

static spyre_status place_like(lowering *w, const ktir_op *op, const lowered_tensor *t,
                               uint32_t last, lowered_tensor **out)
{
    *out = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(*out);
    TRY(lower_scratch(w, op, t->format, lower_sizes(t), last, *out));
    (*out)->element = t->element;
    return NULL;
}

// Hands operands from `first` on to the values from `to` on: tensors to their places, which are
// made when there is none; numbers of the active cores, those of others stay.
static spyre_status hand_on(lowering *w, const ktir_op *op, const ktir_op *end, uint32_t first,
                            uint32_t to, uint32_t last)
{
    uint32_t count = end->operand_count - first;
    lowered_tensor held[MOST_HANDED];
    if (count > MOST_HANDED) return LOWER_NO(w, op, "more than %d values handed on", MOST_HANDED);
    for (uint32_t n = 0; n < count; n++) {
        const lowered_tensor *t = lower_operand(w, end, first + n)->tensor;
        if (!t) continue;
        held[n] = *t;
        if (count == 1 || t->is_constant) continue;
        TRY(lower_scratch(w, end, t->format, lower_sizes(t), lower_number(w, end), &held[n]));
        TRY(lower_copy(w, end, &held[n], t));
    }
    for (uint32_t n = 0; n < count; n++) {
        const lowered_cell *from = lower_operand(w, end, first + n);
        lowered_cell *cell = &w->cells[to + n];
        if (from->tensor) {
            if (!cell->tensor) TRY(place_like(w, op, from->tensor, last, &cell->tensor));
            TRY(lower_hand(w, end, cell->tensor, &held[n]));
            continue;
        }
        lowered_index *number = lower_index_of(w, 0);
        TRY_ALLOC(number);
        *number = *from->index;
        for (uint32_t c = 0; c < ISA_CORES && cell->index; c++)
            if (!(w->active >> c & 1)) number->at[c] = cell->index->at[c];
        cell->index = number;
    }
    return NULL;
}

static spyre_status run_region(lowering *w, const ktir_region *region)
{
    for (uint32_t n = region->begin; w->m->ops.items[n].end < region->end;
         n = w->m->ops.items[n].end) {
        TRY(w->op(w, n));
        lower_free(w, w->m->ops.items[n].end - 1);
    }
    return NULL;
}

// The active cores on which the condition holds.
static spyre_status condition_of(lowering *w, const ktir_op *op, const ktir_op *condition,
                                 uint32_t *out_cores)
{
    const lowered_index *x = lower_operand(w, condition, 0)->index;
    if (!x) return LOWER_NO(w, op, "a loop that depends on the data of a tensor");
    for (uint32_t n = 0; n < ISA_MAX_LOOPS; n++) {
        if (!x->loop[n]) continue;
        w->wants_unroll = true;
        return LOWER_NO(w, op, "a condition that changes in a loop around it");
    }
    *out_cores = 0;
    for (uint32_t c = 0; c < ISA_CORES; c++)
        if ((w->active >> c & 1) && x->at[c]) *out_cores |= 1u << c;
    return NULL;
}

static void forget(lowering *w, uint32_t first, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) w->cells[first + n] = (lowered_cell){0};
}

spyre_status lower_while(lowering *w, const ktir_op *op)
{
    const ktir_region *before = ktir_op_region(w->m, op, 0), *after = ktir_op_region(w->m, op, 1);
    const ktir_op *condition = ktir_last_op(w->m, before), *yield = ktir_last_op(w->m, after);
    uint32_t all = w->active, last = op->end;     // places outlast the regions
    for (uint32_t r = 0; r < op->result_count; r++)
        if (w->last_use[op->first_result + r] > last) last = w->last_use[op->first_result + r];
    forget(w, before->first_argument, before->argument_count);
    forget(w, op->first_result, op->result_count);
    TRY(hand_on(w, op, op, 0, before->first_argument, last));
    lower_hold(w, op->end - 1);
    for (uint32_t n = 0;; n++) {
        uint32_t cores = 0;
        if (n == LOWERING_MOST_UNROLLED)
            return ktir_error(w->m, op, SPYRE_DEVICE_FAULT,
                              "more than %d iterations: it does not end", LOWERING_MOST_UNROLLED);
        TRY(run_region(w, before));
        TRY(hand_on(w, op, condition, 1, op->first_result, last));
        TRY(condition_of(w, op, condition, &cores));
        lower_free(w, lower_number(w, condition));
        if (!cores) break;
        if (cores != w->active) TRY(lower_meet(w, op, cores));
        for (uint32_t k = 0; k < after->argument_count; k++)
            w->cells[after->first_argument + k] = w->cells[op->first_result + k];
        TRY(run_region(w, after));
        TRY(hand_on(w, op, yield, 0, before->first_argument, last));
        lower_free(w, lower_number(w, yield));
    }
    lower_let_go(w, op->end - 1);
    return w->active == all ? NULL : lower_meet(w, op, all);
}
