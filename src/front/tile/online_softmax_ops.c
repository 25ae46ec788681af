// SPDX-License-Identifier: Apache-2.0
//
// The pattern is a maximum m over the cut loop, a shift x - m, a power exp(x - m), and sums of the
// power (SUM, or a product that it is an operand of), each in the same loops as the maximum.
// Between m and the shift may stand a maximum of m and a value that does not depend on the loop,
// which then takes the place of m.
#include "front/tile/online_softmax_ops.h"

#include <float.h>
#include <string.h>

// True when both ops stand in the same loops, down to the one that is cut.
static bool same_loops(const online_softmax *r, uint32_t a, uint32_t b)
{
    const tile_path *x = online_path(r, a), *y = online_path(r, b);
    if (x->depth != r->level + 1 || y->depth != x->depth) return false;
    for (uint32_t l = 0; l < x->depth; l++)
        if (x->level[l].scope != y->level[l].scope) return false;
    return true;
}

static bool stays_inside(const online_softmax *r, uint32_t index)
{
    return def_use_is_written_once(&r->f, online_result(r, index)) &&
           r->t->loops->buffers.items[online_result(r, index)].output < 0;
}

// The one op that reads the op's result, once; SPYRE_NO_ID when there is no such op.
static uint32_t only_reader(const online_softmax *r, uint32_t index)
{
    uint32_t buffer = online_result(r, index);
    if (!stays_inside(r, index) || def_use_use_count(&r->f, buffer) != 1) return SPYRE_NO_ID;
    return r->f.uses[r->f.first_use[buffer]].op;
}

static bool same_walk(const loop_access *a, const loop_access *b)
{
    return a->offset == b->offset && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

// The maximum of max(x) and what does not depend on it takes the place of max(x).
static bool take_guard(online_softmax *r, uint32_t reader)
{
    const loop_op *op = online_op(r, reader);
    uint32_t most = online_result(r, r->most), k = op->operand[1].buffer == most;
    if (op->op != OPFUNC_MAXIMUM || online_path(r, reader)->depth != r->level) return false;
    if (op->operand[1 - k].buffer == most || !same_walk(&op->operand[k], &op->operand[2]))
        return false;
    r->guard = reader;
    return true;
}

// The op that subtracts the largest value from x, or SPYRE_NO_ID.
static uint32_t find_shift(const online_softmax *r, uint32_t from)
{
    uint32_t most = online_result(r, from), x = online_op(r, r->most)->operand[0].buffer;
    for (uint32_t u = r->f.first_use[most]; u < r->f.first_use[most + 1]; u++) {
        uint32_t index = r->f.uses[u].op;
        const loop_op *op = online_op(r, index);
        if (op->op != OPFUNC_SUB || !same_loops(r, r->most, index)) continue;
        uint8_t cut = online_path(r, index)->level[r->level].var;
        if (op->operand[0].buffer == x && op->operand[1].buffer == most && cut != LOOP_NO_DIM &&
            !op->operand[1].stride[cut] && op->operand[2].stride[cut] && stays_inside(r, index))
            return index;
    }
    return SPYRE_NO_ID;
}

static bool find_power(online_softmax *r)
{
    uint32_t reader = only_reader(r, r->most), from = r->most;
    if (reader == SPYRE_NO_ID) return false;
    if (take_guard(r, reader)) from = reader;
    if (!def_use_is_written_once(&r->f, online_result(r, from))) return false;
    r->shifted = find_shift(r, from);
    r->power = SPYRE_NO_ID;
    if (r->shifted == SPYRE_NO_ID) return false;
    const loop_op *shift = online_op(r, r->shifted);
    uint32_t buffer = online_result(r, r->shifted);
    for (uint32_t u = r->f.first_use[buffer]; u < r->f.first_use[buffer + 1]; u++) {
        uint32_t use = r->f.uses[u].op;
        const loop_op *op = online_op(r, use);
        if (op->op == OPFUNC_EXP && same_loops(r, r->shifted, use) &&
            same_walk(&op->operand[0], &op->operand[1]) &&
            same_walk(&op->operand[0], &shift->operand[2]))
            r->power = use;
    }
    return r->power != SPYRE_NO_ID && stays_inside(r, r->power);
}

int online_loop(const online_softmax *r, uint32_t sum, uint32_t k, uint32_t v)
{
    const loop_op *op = online_op(r, sum), *shifted = online_op(r, r->shifted);
    for (uint32_t u = 0; u < shifted->var_count; u++)
        if (shifted->operand[2].stride[u] == op->operand[k].stride[v] &&
            shifted->extent[u] == op->extent[v])
            return (int)u;
    return ONLINE_NO_LOOP;
}

static bool is_sum(const online_softmax *r, uint32_t index, uint32_t k)
{
    const loop_op *op = online_op(r, index);
    if (op->op != OPFUNC_SUM && op->op != OPFUNC_BATCHMATMUL) return false;
    if (!same_loops(r, r->shifted, index) || op->table) return false;
    if (!tile_cuts_reduced(op, &online_path(r, index)->level[r->level])) return false;
    for (uint32_t other = 0; other + 1 < op->operand_count; other++)
        if (other != k && op->operand[other].buffer == op->operand[k].buffer) return false;
    for (uint32_t v = 0; v < op->var_count; v++)
        if (op->operand[k].stride[v] && online_loop(r, index, k, v) == ONLINE_NO_LOOP)
            return false;
    return op->operand[k].offset == online_op(r, r->shifted)->operand[2].offset &&
           def_use_is_written_once(&r->f, online_result(r, index));
}

bool online_is_summed(const online_softmax *r, uint32_t index)
{
    for (uint32_t n = 0; n < r->sum_count; n++)
        if (r->sums[n] == index) return true;
    return false;
}

static bool find_sums(online_softmax *r)
{
    uint32_t buffer = online_result(r, r->power);
    for (uint32_t u = r->f.first_use[buffer]; u < r->f.first_use[buffer + 1]; u++)
        if (r->sum_count < ONLINE_MOST_SUMS && is_sum(r, r->f.uses[u].op, r->f.uses[u].operand))
            r->sums[r->sum_count++] = r->f.uses[u].op;
    return r->sum_count > 0;
}

bool online_find(online_softmax *r)
{
    const loop_op *op = online_op(r, r->most);
    const tile_path *path = online_path(r, r->most);
    if (op->op != OPFUNC_MAX || path->depth == 0 || path->combined) return false;
    r->level = path->depth - 1;
    for (uint32_t l = 0; l < path->depth; l++)
        if (tile_cuts_reduced(op, &path->level[l]) != (l == r->level)) return false;
    spyre_format format = r->t->loops->buffers.items[online_result(r, r->most)].format;
    r->lowest = format == SPYRE_FORMAT_IEEE_FP32 ? -(double)FLT_MAX : -8e9;
    if (format != SPYRE_FORMAT_IEEE_FP32 && format != SPYRE_FORMAT_SEN169_FP16) return false;
    return find_power(r) && find_sums(r);
}
