// SPDX-License-Identifier: Apache-2.0
//
// Each decision is changed alone and the graph priced again. Where a buffer lives is priced as it
// is said, and what would have to leave LX for it is said beside it. A division is different:
// whether neighbours may then keep in LX what they share follows from all of them, so the one that
// looks best from here is planned anew in a copy of the graph, and only what the copy saves counts.
#include "front/explain/alternatives.h"

#include <string.h>

#include "front/divide/span_reduction.h"
#include "front/front.h"
#include "front/ir/core_numbers.h"
#include "front/ir/def_use.h"
#include "front/ir/lx_slices.h"
#include "front/plan/lx_headroom.h"
#include "front/plan/plan.h"
#include "isa/constants.h"

static cost cost_with(const loop_graph *loops, const loop_op *op, uint32_t resident)
{
    cost_basis basis = cost_basis_of(loops, op);
    division d = division_get(op);
    return cost_of(op, &basis, &d, resident);
}

// Keeps the list short and in order.
static void add(alternatives *list, double saved_us, double least_us, const char *change)
{
    uint32_t at = list->count;
    if (saved_us <= least_us) return;
    while (at > 0 && list->best[at - 1].saved_us < saved_us) at--;
    if (at == ALTERNATIVES_MOST) return;
    if (list->count < ALTERNATIVES_MOST) list->count++;
    memmove(&list->best[at + 1], &list->best[at],
            (list->count - at - 1) * sizeof list->best[0]);
    list->best[at] = (alternative){change, saved_us};
}

// --- A buffer that stays in LX

// Bits of the operands that lie in the buffer.
static uint32_t operands_in(const loop_op *op, uint32_t buffer)
{
    uint32_t bits = 0;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (op->operand[k].buffer == buffer) bits |= 1u << k;
    return bits;
}

static double saved_by_lx(const loop_graph *loops, uint32_t buffer)
{
    const loop_buffer *b = &loops->buffers.items[buffer];
    double saved = 0;
    for (uint32_t i = b->first_op; i <= b->last_op && i < loops->ops.count; i++) {
        const loop_op *op = &loops->ops.items[i];
        uint32_t touched = operands_in(op, buffer), now = cost_resident(loops, op);
        if (touched) saved += cost_with(loops, op, now).us - cost_with(loops, op, now | touched).us;
    }
    return saved;
}

// "%h (b3) stayed in LX (in memory: LX is full; for that %g (b2) has to leave)"
static const char *describe_place(const loop_graph *loops, uint32_t id, arena *memory)
{
    const loop_buffer *b = &loops->buffers.items[id];
    const char *place = lx_headroom_describe(loops, id, memory), *why = b->why_in_memory;
    if (!place) return NULL;
    if (!why || strcmp(why, place) == 0)
        return arena_printf(memory, "%%%s (b%u) stayed in LX (%s%s)", b->name, id,
                            why ? "in memory: " : "", place);
    return arena_printf(memory, "%%%s (b%u) stayed in LX (in memory: %s; %s)", b->name, id, why,
                        place);
}

static spyre_status try_place(const loop_graph *loops, const loop_op *op, double least_us,
                              arena *memory, alternatives *out)
{
    for (uint32_t k = 0; k < op->operand_count; k++) {
        uint32_t id = op->operand[k].buffer;
        const loop_buffer *b = &loops->buffers.items[id];
        bool seen = operands_in(op, id) & ((1u << k) - 1);
        if (seen || b->kind != LOOP_LOCAL || b->output >= 0 || b->in_lx) continue;
        double saved = saved_by_lx(loops, id);
        if (saved <= least_us) continue;
        const char *change = describe_place(loops, id, memory);
        TRY_ALLOC(change);
        add(out, saved, least_us, change);
    }
    return NULL;
}

// --- No restickify

static double saved_by_source(const loop_graph *loops, uint32_t index)
{
    const loop_op *op = &loops->ops.items[index];
    uint32_t result = loop_result(op)->buffer;
    bool source_in_lx = loop_operand_buffer(loops, op, 0)->in_lx;
    double saved = cost_as_planned(loops, op).us;
    for (uint32_t i = index + 1; i < loops->ops.count; i++) {
        const loop_op *reader = &loops->ops.items[i];
        uint32_t reads = operands_in(reader, result), now = cost_resident(loops, reader);
        uint32_t then = source_in_lx ? now | reads : now & ~reads;
        if (reads) saved += cost_with(loops, reader, now).us - cost_with(loops, reader, then).us;
    }
    return saved;
}

static spyre_status try_no_restickify(const loop_graph *loops, uint32_t index, double least_us,
                                      arena *memory, alternatives *out)
{
    const loop_op *op = &loops->ops.items[index];
    if (op->op != OPFUNC_RESTICKIFY) return NULL;
    const loop_buffer *source = loop_operand_buffer(loops, op, 0);
    const char *change = arena_printf(memory, "%%%s (b%u) %s the stick that its reader wants",
                                      source->name, op->operand[0].buffer,
                                      source->kind == LOOP_INPUT ? "came with" : "were made with");
    TRY_ALLOC(change);
    add(out, saved_by_source(loops, index), least_us, change);
    return NULL;
}

// --- Another division

typedef struct {
    const loop_graph *loops;
    const loop_op *op;
    uint32_t index;
    const def_use *f;
    cost_basis basis;
    double lx_bytes;
    division best;
    double best_us;
} divider;

static lx_slices slices_under(const divider *s, uint32_t index, uint32_t k, const division *d)
{
    const loop_op *op = &s->loops->ops.items[index];
    division now = division_get(op);
    division_sizes sizes = division_sizes_of(s->loops, op);
    lx_walk walk = lx_walk_of(s->loops, op, &sizes, k);
    return lx_slices_under(s->loops, op, &walk, &sizes, index == s->index ? d : &now, k);
}

// True when all who touch the buffer of operand k divide it alike and a core's slice has room.
static bool would_agree(const divider *s, uint32_t k, const division *d)
{
    uint32_t id = s->op->operand[k].buffer, writer = s->f->writer[id];
    if (!def_use_is_written_once(s->f, id) || s->loops->buffers.items[id].output >= 0) return false;
    uint32_t output = s->loops->ops.items[writer].operand_count - 1;
    lx_slices written = slices_under(s, writer, output, d);
    if (s->basis.bytes[k] / lx_slices_count(&written) > s->lx_bytes) return false;
    for (uint32_t u = s->f->first_use[id]; u < s->f->first_use[id + 1]; u++) {
        lx_slices read = slices_under(s, s->f->uses[u].op, s->f->uses[u].operand, d);
        if (!lx_slices_serves(&written, &read)) return false;
    }
    return true;
}

// The op's time, less what others save by what would then stay in LX.
static double price(const divider *s, const division *d)
{
    double others = 0;
    uint32_t resident = 0;
    for (uint32_t k = 0; k < s->op->operand_count; k++) {
        if (!would_agree(s, k, d)) continue;
        uint32_t users = 1 + def_use_use_count(s->f, s->op->operand[k].buffer);
        resident |= 1u << k;
        others += (users - 1) * s->basis.bytes[k] / MEMORY_BANDWIDTH;
    }
    return cost_of(s->op, &s->basis, d, resident).us - others;
}

// Result loops take any number of slices that divides them, reduced ones keep theirs.
static void try_from(divider *s, uint32_t v, division *trial)
{
    const loop_op *op = s->op;
    if (v == op->var_count) {
        division numbered = *trial;
        core_numbers_choose(s->loops, op, &numbered);
        bool possible = span_fits(s->loops, op, &numbered) &&
                        !division_shares_uneven(op, &s->basis.sizes, &numbered);
        double us = possible ? price(s, &numbered) : s->best_us;
        if (us >= s->best_us * (1 - 1e-9)) return;
        s->best_us = us;
        s->best = numbered;
        return;
    }
    if (loop_var_is_reduced(op, v)) {
        try_from(s, v + 1, trial);
        return;
    }
    int64_t left = s->loops->cores / division_cores(op, trial), units = s->basis.sizes.units[v];
    for (int32_t slices = 1; slices <= left && slices <= units; slices++) {
        if (!division_cuts(units, slices, s->basis.sizes.uneven[v])) continue;
        trial->split[v] = slices;
        try_from(s, v + 1, trial);
    }
    trial->split[v] = 1;
}

static void find_division(divider *s)
{
    division trial = division_get(s->op);
    s->best = trial;
    s->best_us = price(s, &trial);
    for (uint32_t v = 0; v < s->op->var_count; v++)
        if (!loop_var_is_reduced(s->op, v)) trial.split[v] = 1;
    try_from(s, 0, &trial);
}

// False when the pass was left out.
static bool lx_is_planned(const loop_graph *loops)
{
    for (uint32_t b = 0; b < loops->buffers.count; b++)
        if (loops->buffers.items[b].in_lx || loops->buffers.items[b].why_in_memory) return true;
    return false;
}

static const char *describe(arena *memory, const loop_op *op, const division *d)
{
    if (division_cores(op, d) == 1) return "on one core";
    const char *loops = division_describe(memory, op, d);
    return loops ? arena_printf(memory, "divided %s", loops) : NULL;
}

static spyre_status try_division(const loop_graph *loops, const def_use *f, uint32_t index,
                                 double least_us, arena *memory, alternatives *out)
{
    const loop_op *op = &loops->ops.items[index];
    divider s = {.loops = loops, .op = op, .index = index, .f = f,
                 .basis = cost_basis_of(loops, op)};
    division now = division_get(op);
    double us = 0;
    if (op->op == OPFUNC_SHUFFLE) return NULL; // it is divided as its reader is
    if (lx_is_planned(loops)) s.lx_bytes = (double)lx_limit_bytes(loops);
    find_division(&s);
    if (price(&s, &now) - s.best_us <= least_us) return NULL;
    division *only = ARENA_NEW(memory, division, loops->ops.count);
    TRY_ALLOC(only);
    only[index] = s.best;
    TRY(plan_us(loops, only, index, index + 1, &us));
    const char *best = describe(memory, op, &s.best), *before = describe(memory, op, &now);
    const char *change =
        best && before ? arena_printf(memory, "it were %s instead of %s", best, before) : NULL;
    TRY_ALLOC(change);
    add(out, cost_of_graph(loops) - us, least_us, change);
    return NULL;
}

spyre_status alternatives_find(const loop_graph *loops, const def_use *f, uint32_t index,
                               double least_us, arena *memory, alternatives *out)
{
    const loop_op *op = &loops->ops.items[index];
    *out = (alternatives){0};
    TRY(try_place(loops, op, least_us, memory, out));
    TRY(try_no_restickify(loops, index, least_us, memory, out));
    return try_division(loops, f, index, least_us, memory, out);
}
