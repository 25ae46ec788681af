// SPDX-License-Identifier: Apache-2.0
//
// span_reduction: a core reaches over at most 256 MiB of a tensor. Tensor by tensor, and from the
// outermost device dim inwards, the loop that moves along the dim gets the split with the largest
// span within the limit (so the fewest cores), or, when none is within, the one with the smallest
// span. What was committed for one tensor is a lower bound for the next. Source: torch-spyre,
// docs/source/compiler/work_division_planning.md, "Pass 1".
//
// Splitting the largest loop instead would use up cores where they do not help: a span is a matter
// of the outermost dim alone.
#include "front/divide/span_reduction.h"
#include "front/front.h"

#include <inttypes.h>

#include "base/integer.h"
#include "base/log.h"
#include "front/ir/core_numbers.h"

// One operand: bytes and number of the device steps of every loop, tiles for the stick's.
typedef struct {
    uint32_t var_count;
    int64_t bytes[LOOP_MAX_VARS], steps[LOOP_MAX_VARS];
    int64_t rows_bytes; // table of a gather: what its rows lie in
} reach;

static bool find_reach(const loop_graph *loops, const loop_op *op, uint32_t k, reach *out)
{
    loop_location place;
    if (loop_locate(loops, op, &op->operand[k], &place)) return false;
    *out = (reach){.var_count = op->var_count};
    if (loop_is_table(op, &op->operand[k]))
        out->rows_bytes = place.row_stride * loop_row_steps(loops, op, &place);
    for (uint32_t v = 0; v < op->var_count; v++) {
        out->bytes[v] = place.stride[v];
        out->steps[v] = divide_up(op->extent[v], place.walk.span[v]);
    }
    return true;
}

static int64_t steps_of_core(const reach *r, const division *d, uint32_t v)
{
    return (r->steps[v] + d->split[v] - 1) / d->split[v];
}

// The loop that a core moves along farthest out; LOOP_NO_DIM when it stays within one stick.
static uint8_t outermost(const reach *r, const division *d)
{
    uint8_t best = LOOP_NO_DIM;
    for (uint8_t v = 0; v < r->var_count; v++) {
        if (!r->bytes[v] || steps_of_core(r, d, v) == 1) continue;
        if (best == LOOP_NO_DIM || r->bytes[v] > r->bytes[best]) best = v;
    }
    return best;
}

static int64_t span_of(const reach *r, const division *d)
{
    uint8_t v = outermost(r, d);
    int64_t span = v == LOOP_NO_DIM ? SPYRE_STICK_BYTES : r->bytes[v] * steps_of_core(r, d, v);
    return span > r->rows_bytes ? span : r->rows_bytes;
}

int64_t span_of_operand(const loop_graph *loops, const loop_op *op, const division *d, uint32_t k)
{
    reach r;
    return find_reach(loops, op, k, &r) ? span_of(&r, d) : 0;
}

bool span_fits(const loop_graph *loops, const loop_op *op, const division *d)
{
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (span_of_operand(loops, op, d, k) > loops->settings.max_span_bytes) return false;
    return true;
}

// --- The search

typedef struct {
    division d;
    int64_t span, cores;
} choice;

static bool is_better(const loop_graph *loops, const choice *a, const choice *b)
{
    bool within = a->span <= loops->settings.max_span_bytes;
    if (within != (b->span <= loops->settings.max_span_bytes)) return within;
    if (a->span != b->span) return within ? a->span > b->span : a->span < b->span;
    return a->cores < b->cores;
}

// The best split of loop v, the others staying as they are.
static division commit(const loop_graph *loops, const loop_op *op, const division_sizes *sizes,
                       const reach *r, uint8_t v, const division *d)
{
    choice best = {*d, span_of(r, d), division_cores(op, d)};
    int64_t units = sizes->units[v], others = best.cores / d->split[v];
    for (int64_t slices = d->split[v] + 1; slices * others <= loops->cores; slices++) {
        choice trial = {.d = *d, .cores = slices * others};
        if (units % slices) continue;
        trial.d.split[v] = (int32_t)slices;
        trial.span = span_of(r, &trial.d);
        if (is_better(loops, &trial, &best)) best = trial;
    }
    return best.d;
}

static void reduce_operand(const loop_graph *loops, const loop_op *op,
                           const division_sizes *sizes, uint32_t k, division *d)
{
    reach r;
    if (!find_reach(loops, op, k, &r)) return;
    for (uint32_t turn = 0; turn < op->var_count; turn++) {
        uint8_t v = outermost(&r, d);
        if (v == LOOP_NO_DIM || span_of(&r, d) <= loops->settings.max_span_bytes) return;
        *d = commit(loops, op, sizes, &r, v, d);
    }
}

division span_division(const loop_graph *loops, const loop_op *op)
{
    division d = division_whole();
    if (span_fits(loops, op, &d)) return d;
    division_sizes sizes = division_sizes_of(loops, op);
    for (uint32_t k = 0; k < op->operand_count; k++) reduce_operand(loops, op, &sizes, k, &d);
    return d;
}

uint32_t span_reduced_splits(const loop_op *op, const division *d)
{
    uint32_t reduced = 0;
    for (uint32_t v = 0; v < op->var_count; v++)
        reduced += d->split[v] > 1 && loop_var_is_reduced(op, v);
    return reduced;
}

// "it may be divided c0/4", or that nothing helps.
static const char *advice(const loop_graph *loops, const loop_op *op)
{
    division d = span_division(loops, op);
    if (!span_fits(loops, op, &d))
        return arena_printf(loops->memory, "no division over %u cores stays below", loops->cores);
    const char *words = division_describe(loops->memory, op, &d);
    return words ? arena_printf(loops->memory, "%s stays below", words) : NULL;
}

void span_report(const loop_graph *loops, uint32_t index, const division *d)
{
    const loop_op *op = &loops->ops.items[index];
    for (uint32_t k = 0; k < op->operand_count; k++) {
        int64_t span = span_of_operand(loops, op, d, k);
        if (span <= loops->settings.max_span_bytes) continue;
        const char *divided = division_describe(loops->memory, op, d), *better = advice(loops, op);
        log_critical("%s, operand %u (%%%s): divided %s, a core reaches over %" PRId64
                     " bytes, at most %u are allowed; %s",
                     loop_op_place(loops, index), k,
                     loop_operand_buffer(loops, op, k)->name, divided ? divided : "-",
                     span, loops->settings.max_span_bytes, better ? better : "out of memory");
        return;
    }
}

static spyre_status reduce_op(loop_graph *loops, uint32_t index, bool *changed)
{
    loop_op *op = &loops->ops.items[index];
    division d = division_whole();
    *loops->at_node = op->node;
    if (span_fits(loops, op, &d)) return NULL;
    d = span_division(loops, op);
    uint32_t reduced = span_reduced_splits(op, &d);
    if (reduced > 1)
        return status_new(SPYRE_UNSUPPORTED,
                          "%s: a span of at most %" PRId64
                          " bytes needs splits of %u reduced loops; one is possible",
                          loop_op_place(loops, index), (int64_t)loops->settings.max_span_bytes,
                          reduced);
    span_report(loops, index, &d);
    if (division_cores(op, &d) == 1) return NULL;
    core_numbers_choose(loops, op, &d);
    division_set(op, &d, LOOP_DIVIDED_BY_SPAN);
    *changed = true;
    return NULL;
}

spyre_status pass_span_reduction(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    for (uint32_t i = 0; i < loops->ops.count; i++) TRY(reduce_op(loops, i, out_changed));
    return NULL;
}
