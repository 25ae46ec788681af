// SPDX-License-Identifier: Apache-2.0
//
// Repeated steps: whether the steps of a loop that was written step by step, such as the layers of
// a model, are the same ops, which read the same, or move on evenly, or what the step before made:
//
//     y0 = x + w[0]; y1 = y0 + w[1]; y2 = y1 + w[2]
//     one op in three steps, operand 0: the result of the step before; operand 1: w, moving by 1
#include "front/ir/lx_slices.h"
#include "front/reroll/reroll.h"

#include <string.h>

static const loop_op *op_at(const reroll *r, uint32_t index)
{
    return &r->loops->ops.items[index];
}

static const loop_buffer *buffer_at(const reroll *r, uint32_t index)
{
    return &r->loops->buffers.items[index];
}

static uint32_t result_of(const reroll *r, uint32_t index)
{
    const loop_op *op = op_at(r, index);
    return loop_result(op)->buffer;
}

// The step that makes the buffer, or SPYRE_NO_ID.
static uint32_t maker_step(const reroll *r, uint32_t buffer)
{
    return def_use_is_written_once(&r->f, buffer) ? r->step_of[r->f.writer[buffer]] : SPYRE_NO_ID;
}

// --- Which op belongs to which step

// What the first step makes for all of them stands in front of the loop.
static bool serves_all_steps(const reroll *r, uint32_t index, const bool *hoisted)
{
    uint32_t buffer = result_of(r, index), others = 0;
    if (!def_use_is_written_once(&r->f, buffer)) return false;
    for (uint32_t u = r->f.first_use[buffer]; u < r->f.first_use[buffer + 1]; u++) {
        uint32_t reader = r->f.uses[u].op, step = r->step_of[reader];
        if (step != SPYRE_NO_ID && step >= 2) return true;
        others += !hoisted[reader];
    }
    return def_use_use_count(&r->f, buffer) && !others;
}

static spyre_status hoist(reroll *r, arena *memory)
{
    bool *hoisted = ARENA_NEW(memory, bool, r->loops->ops.count);
    TRY_ALLOC(hoisted);
    for (uint32_t i = r->loops->ops.count; i-- > 0;)
        if (r->step_of[i] == 0) hoisted[i] = serves_all_steps(r, i, hoisted);
    for (uint32_t i = 0; i < r->loops->ops.count; i++)
        if (hoisted[i]) r->step_of[i] = SPYRE_NO_ID;
    return NULL;
}

// The one step whose values the copy reads, or SPYRE_NO_ID.
static uint32_t copied_step(const reroll *r, const loop_op *op)
{
    uint32_t step = SPYRE_NO_ID;
    if (opfunc_describe(op->op)->kind != OPFUNC_KIND_COPY) return SPYRE_NO_ID;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        uint32_t now = maker_step(r, op->operand[k].buffer);
        if (now == SPYRE_NO_ID || (step != SPYRE_NO_ID && now != step)) return SPYRE_NO_ID;
        step = now;
    }
    return step;
}

// Copies that put each step's result at its place in a whole belong to the steps: those of a graph
// node that copies something of every step.
static spyre_status absorb_copies(reroll *r, arena *memory)
{
    const loop_graph *loops = r->loops;
    uint32_t *count = ARENA_NEW(memory, uint32_t, loops->graph->nodes.count);
    bool *taken = ARENA_NEW(memory, bool, loops->ops.count);
    TRY_ALLOC(count);
    TRY_ALLOC(taken);
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        const loop_op *op = op_at(r, i);
        if (r->step_of[i] != SPYRE_NO_ID || op->tile_depth) continue;
        r->step_of[i] = copied_step(r, op);
        taken[i] = r->step_of[i] != SPYRE_NO_ID;
        count[op->node] += taken[i];
    }
    for (uint32_t i = 0; i < loops->ops.count; i++)
        if (taken[i] && count[op_at(r, i)->node] % r->steps) r->step_of[i] = SPYRE_NO_ID;
    return NULL;
}

static spyre_status list_ops(reroll *r, arena *memory)
{
    uint32_t ops = r->loops->ops.count, first = SPYRE_NO_ID;
    uint32_t *count = ARENA_NEW(memory, uint32_t, r->steps);
    TRY_ALLOC(count);
    for (uint32_t i = 0; i < ops; i++) {
        if (r->step_of[i] == SPYRE_NO_ID) continue;
        if (first == SPYRE_NO_ID) first = i;
        if (op_at(r, i)->tile_depth) reroll_refuse(r, i, "it stands in another loop");
        count[r->step_of[i]]++;
    }
    r->length = count[0];
    for (uint32_t s = 0; s < r->steps; s++)
        if (count[s] != r->length || !count[s])
            reroll_refuse(r, first, "its steps have different numbers of kernels");
    if (r->why_not) return NULL;
    TRY_NEW(memory, r->position_of, ops);
    TRY_NEW(memory, r->body, (size_t)r->steps * r->length);
    TRY_NEW(memory, r->operands, r->length);
    TRY_NEW(memory, r->results, r->length);
    memset(count, 0, r->steps * sizeof *count);
    for (uint32_t i = 0; i < ops; i++) {
        uint32_t step = r->step_of[i];
        if (step == SPYRE_NO_ID) continue;
        r->position_of[i] = count[step]++;
        r->body[step * r->length + r->position_of[i]] = i;
    }
    return NULL;
}

// --- Equal steps

static bool same_op(const loop_op *a, const loop_op *b)
{
    return a->op == b->op && a->var_count == b->var_count && a->stick == b->stick &&
           a->operand_count == b->operand_count && a->table == b->table &&
           a->accumulator == b->accumulator && a->scanned == b->scanned &&
           a->row_stride == b->row_stride && a->row_count == b->row_count &&
           memcmp(a->extent, b->extent, a->var_count * sizeof a->extent[0]) == 0 &&
           memcmp(a->split, b->split, a->var_count * sizeof a->split[0]) == 0 &&
           memcmp(a->parameter, b->parameter, sizeof a->parameter) == 0;
}

static bool same_count(const loop_graph *loops, const loop_access *a, const loop_access *b)
{
    const loop_count *one = loop_count_of(loops, a), *other = loop_count_of(loops, b);
    return one == other || (one && other && memcmp(one, other, sizeof *one) == 0);
}

bool reroll_same_strides(const loop_graph *loops, const loop_access *a, const loop_access *b)
{
    return memcmp(a->stride, b->stride, sizeof a->stride) == 0 && same_count(loops, a, b);
}

bool reroll_same_places(const loop_buffer *a, const loop_buffer *b)
{
    return a->stick == b->stick && a->format == b->format && loop_same_dims(a, b);
}

static bool same_layout(const loop_buffer *a, const loop_buffer *b)
{
    return reroll_same_places(a, b) && a->dtype == b->dtype && a->exx2 == b->exx2 &&
           memcmp(a->order, b->order, a->dim_count) == 0;
}

static const loop_access *access_at(const reroll *r, uint32_t step, uint32_t p, uint32_t k)
{
    return &op_at(r, reroll_op(r, step, p))->operand[k];
}

static void match_shared(reroll *r, uint32_t p, uint32_t k, reroll_operand *out)
{
    const loop_access *first = access_at(r, 0, p, k), *second = access_at(r, 1, p, k);
    out->source = REROLL_SHARED;
    out->step = second->offset - first->offset;
    for (uint32_t s = 1; s < r->steps; s++) {
        const loop_access *now = access_at(r, s, p, k);
        if (now->buffer != first->buffer || !reroll_same_strides(r->loops, now, first))
            reroll_refuse(r, reroll_op(r, s, p), "another step reads something else");
        else if (now->offset != first->offset + out->step * s)
            reroll_refuse(r, reroll_op(r, s, p), "its tiles are not evenly apart");
    }
    if (out->step < 0) reroll_refuse(r, reroll_op(r, 0, p), "its tiles run backwards");
}

// The value of op `out->from` of the same step (back 0) or the one before (back 1).
static void match_made(reroll *r, uint32_t p, uint32_t k, uint32_t back, reroll_operand *out)
{
    const loop_access *some = access_at(r, 1, p, k);
    out->source = back ? REROLL_CARRY : REROLL_OWN;
    out->from = r->position_of[r->f.writer[some->buffer]];
    for (uint32_t s = back; s < r->steps; s++) {
        const loop_access *now = access_at(r, s, p, k);
        if (maker_step(r, now->buffer) != s - back ||
            r->position_of[r->f.writer[now->buffer]] != out->from)
            reroll_refuse(r, reroll_op(r, s, p), "another step reads something else");
        else if (now->offset != some->offset || !reroll_same_strides(r->loops, now, some))
            reroll_refuse(r, reroll_op(r, s, p), "another step reads it elsewhere");
    }
}

static void match_operand(reroll *r, uint32_t p, uint32_t k)
{
    reroll_operand *out = &r->operands[p][k];
    uint32_t maker = maker_step(r, access_at(r, 1, p, k)->buffer);
    if (maker == SPYRE_NO_ID)
        match_shared(r, p, k, out);
    else if (maker <= 1)
        match_made(r, p, k, 1 - maker, out);
    else
        reroll_refuse(r, reroll_op(r, 1, p), "it reads what a later step makes");
    if (out->source != REROLL_CARRY || r->why_not) return;
    reroll_result *result = &r->results[out->from];
    const loop_access *first = access_at(r, 0, p, k), *walk = access_at(r, 1, p, k);
    if (maker_step(r, first->buffer) != SPYRE_NO_ID)
        reroll_refuse(r, reroll_op(r, 0, p), "its first value is made in the loop");
    else if (result->carried && result->first != first->buffer)
        reroll_refuse(r, reroll_op(r, 0, p), "one value has two first values");
    if (result->carried) return;
    *result =
        (reroll_result){.carried = true, .first = first->buffer, .access = *first, .walk = *walk};
}

static void match_result(reroll *r, uint32_t p)
{
    uint32_t output = op_at(r, reroll_op(r, 0, p))->operand_count - 1;
    const loop_access *last = access_at(r, r->steps - 1, p, output);
    reroll_operand *out = &r->operands[p][output];
    if (maker_step(r, last->buffer) == SPYRE_NO_ID) {
        match_shared(r, p, output, out);
        return;
    }
    *out = (reroll_operand){.source = REROLL_OWN, .from = p};
    for (uint32_t s = 0; s < r->steps; s++) {
        const loop_access *now = access_at(r, s, p, output);
        if (maker_step(r, now->buffer) != s || now->offset != last->offset ||
            !reroll_same_strides(r->loops, now, last) ||
            !same_layout(buffer_at(r, now->buffer), buffer_at(r, last->buffer)))
            reroll_refuse(r, reroll_op(r, s, p), "another step's result has another layout");
        else if (s + 1 < r->steps && buffer_at(r, now->buffer)->output >= 0)
            reroll_refuse(r, reroll_op(r, s, p), "its result leaves the graph");
    }
}

// Values of steps that ops outside of the loop read: only the last one is known there.
static void find_readers(reroll *r)
{
    for (uint32_t b = 0; b < r->loops->buffers.count; b++) {
        uint32_t step = maker_step(r, b);
        if (step == SPYRE_NO_ID) continue;
        reroll_result *result = &r->results[r->position_of[r->f.writer[b]]];
        bool last = step + 1 == r->steps;
        result->read_outside |= last && buffer_at(r, b)->output >= 0;
        for (uint32_t u = r->f.first_use[b]; u < r->f.first_use[b + 1]; u++) {
            if (r->step_of[r->f.uses[u].op] != SPYRE_NO_ID) continue;
            result->read_outside |= last;
            if (!last) reroll_refuse(r, r->f.writer[b], "its result is needed outside of its step");
        }
    }
}

// True when no op of the body reads the value of the step before once op q has made the new one.
static bool may_be_in_place(const reroll *r, uint32_t q)
{
    for (uint32_t p = 0; p < r->length; p++) {
        const loop_op *op = op_at(r, reroll_op(r, 1, p));
        for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
            const reroll_operand *operand = &r->operands[p][k];
            if (operand->source != REROLL_CARRY || operand->from != q) continue;
            if (p > q || (p == q && !lx_in_place(r->loops, op, k))) return false;
        }
    }
    return true;
}

spyre_status reroll_match(reroll *r, arena *memory)
{
    if (r->steps > 2) TRY(hoist(r, memory));
    TRY(absorb_copies(r, memory));
    TRY(list_ops(r, memory));
    for (uint32_t p = 0; p < r->length && !r->why_not; p++)
        for (uint32_t s = 1; s < r->steps; s++)
            if (!same_op(op_at(r, reroll_op(r, 0, p)), op_at(r, reroll_op(r, s, p))))
                reroll_refuse(r, reroll_op(r, s, p),
                              "another step has another kernel in its place");
    for (uint32_t p = 0; p < r->length && !r->why_not; p++) {
        match_result(r, p);
        for (uint32_t k = 0; k + 1 < op_at(r, reroll_op(r, 0, p))->operand_count; k++)
            if (!r->why_not) match_operand(r, p, k);
    }
    if (r->why_not) return NULL;
    find_readers(r);
    for (uint32_t q = 0; q < r->length; q++)
        r->results[q].in_place = r->results[q].carried && may_be_in_place(r, q);
    return NULL;
}
