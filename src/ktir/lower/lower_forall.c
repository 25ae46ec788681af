// SPDX-License-Identifier: Apache-2.0
//
// scf.forall and scf.parallel: one iteration after the other, and what scf.reduce combines.
#include "ktir/lower/lowering.h"

static spyre_status bound(lowering *w, const ktir_op *op, uint32_t n, int64_t *out)
{
    const lowered_index *x = lower_operand(w, op, n)->index;
    if (x && lower_uniform(w, x, out)) return NULL;
    w->wants_unroll = true;
    return LOWER_NO(w, op, "a bound that differs between cores or iterations");
}

typedef struct {
    int64_t first, step, trips;         // trips: iterations
} range;

// Along dim d.
static spyre_status range_of(lowering *w, const ktir_op *op, uint32_t dims, uint32_t d, range *out)
{
    const bool parallel = op->opcode == KTIR_OP_PARALLEL;
    int64_t end;
    *out = (range){.step = 1};
    if (parallel) {
        TRY(bound(w, op, d, &out->first));
        TRY(bound(w, op, 2 * dims + d, &out->step));
    }
    TRY(bound(w, op, parallel ? dims + d : d, &end));
    if (out->step < 1)
        return ktir_error(w->m, op, SPYRE_DEVICE_FAULT, "step %lld: the loop never ends",
                          (long long)out->step);
    if (out->first < -INT32_MAX || end > INT32_MAX)
        return LOWER_NO(w, op, "bounds beyond 31 bits");
    out->trips = out->first < end ? (end - out->first + out->step - 1) / out->step : 0;
    return NULL;
}

// The result begins as the initial value: a number, or a place in LX of its own.
static spyre_status begin_reduction(lowering *w, const ktir_op *op)
{
    if (!op->result_count) return NULL;
    const lowered_cell *start = lower_operand(w, op, op->operand_count - 1);
    lowered_cell *result = &w->cells[op->first_result];
    *result = (lowered_cell){.index = start->index};
    if (!start->tensor) return NULL;
    uint32_t last = w->last_use[op->first_result], end = op->end - 1;
    result->tensor = ARENA_NEW(w->memory, lowered_tensor, 1);
    TRY_ALLOC(result->tensor);
    TRY(lower_scratch(w, op, start->tensor->format, lower_sizes(start->tensor),
                      last > end ? last : end, result->tensor));
    result->tensor->element = start->tensor->element;
    return lower_copy(w, op, result->tensor, start->tensor);
}

// What the combining region yields becomes the nest's result.
static spyre_status take_combined(lowering *w, const ktir_op *yield, lowered_cell *result)
{
    const lowered_cell *from = lower_operand(w, yield, 0);
    if (!result->tensor) {
        result->index = from->index;
        return NULL;
    }
    return lower_hand(w, yield, result->tensor, from->tensor);
}

spyre_status lower_scf_reduce(lowering *w, const ktir_op *op)
{
    if (!op->operand_count) return NULL;
    const ktir_region *region = ktir_op_region(w->m, op, 0);
    const ktir_op *nest = &w->m->ops.items[w->parent[lower_number(w, op)]];
    uint32_t left = region->first_argument, right = left + 1;
    const lowered_cell *value = lower_operand(w, op, 0);
    w->cells[left] = w->cells[nest->first_result];
    w->cells[right] = *value;
    // Its own reader is this operation; inside of the region there are more.
    if (value->tensor && !value->tensor->is_constant)
        lower_keep(w, value->tensor->offset, w->last_use[right]);
    for (uint32_t n = region->begin; n < region->end; n = w->m->ops.items[n].end) {
        const ktir_op *inner = &w->m->ops.items[n];
        bool yields = inner->opcode == KTIR_OP_REDUCE_RETURN;
        TRY(yields ? take_combined(w, inner, &w->cells[nest->first_result]) : w->op(w, n));
        lower_free(w, inner->end - 1);
    }
    return NULL;
}

spyre_status lower_nest(lowering *w, const ktir_op *op)
{
    const ktir_region *region = ktir_op_region(w->m, op, 0);
    uint32_t dims = region->argument_count;
    range ranges[KTIR_MOST_RANK];
    int64_t count = 1;
    TRY(begin_reduction(w, op));
    for (uint32_t d = 0; d < dims; d++) {
        TRY(range_of(w, op, dims, d, &ranges[d]));
        if (__builtin_mul_overflow(count, ranges[d].trips, &count) ||
            count > LOWERING_MOST_UNROLLED)
            return LOWER_NO(w, op, "more than %d iterations", LOWERING_MOST_UNROLLED);
    }
    lower_hold(w, op->end - 1);
    for (int64_t n = 0; n < count; n++) {
        int64_t rest = n;
        for (uint32_t d = dims; d-- > 0;) {
            const range *r = &ranges[d];
            lowered_index *x = lower_index_of(w, r->first + rest % r->trips * r->step);
            TRY_ALLOC(x);
            rest /= r->trips;
            w->cells[region->first_argument + d].index = x;
        }
        TRY(lower_region(w, region));
    }
    lower_let_go(w, op->end - 1);
    return NULL;
}
