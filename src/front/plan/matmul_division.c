// SPDX-License-Identifier: Apache-2.0
#include "front/plan/matmul_division.h"

#include <math.h>

#include "front/ir/core_numbers.h"
#include "isa/constants.h"

typedef struct {
    const division_prices *p;
    uint32_t index, resident; // bits of the operands
    division best;
    cost best_cost;
} product;

static const loop_op *op_of(const product *s)
{
    return &s->p->loops->ops.items[s->index];
}

// What several cores read alike is sent to each; an eighth of the way around, on average.
static double sharing_us(const product *s, const division *d)
{
    const loop_op *op = op_of(s);
    double bytes = 0;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++) {
        double times = 1;
        if (!(s->resident >> k & 1u)) continue;
        for (uint32_t v = 0; v < op->var_count; v++)
            if (!op->operand[k].stride[v]) times *= d->split[v];
        if (times > 1) bytes += times * s->p->basis[s->index]->bytes[k];
    }
    return bytes / (8 * RING_BANDWIDTH);
}

// True when a core has room for its parts of what would be in LX, and the form they come from.
static bool has_room(const product *s, const division *d)
{
    const loop_op *op = op_of(s);
    double bytes = 0;
    for (uint32_t k = 0; k < op->operand_count; k++) {
        double part = s->p->basis[s->index]->bytes[k];
        if (!(s->resident >> k & 1u)) continue;
        for (uint32_t v = 0; v < op->var_count; v++)
            if (op->operand[k].stride[v])
                part *= division_share(&s->p->basis[s->index]->sizes, v, d->split[v]);
        bytes += part;
    }
    return bytes <= s->p->lx_bytes;
}

static cost price_product(const product *s, const division *d)
{
    cost c = cost_of(op_of(s), s->p->basis[s->index], d, s->resident);
    c.us += sharing_us(s, d);
    return c;
}

static void try_from(product *s, uint32_t v, division *trial)
{
    const loop_op *op = op_of(s);
    const division_sizes *sizes = &s->p->basis[s->index]->sizes;
    if (v == op->var_count) {
        if (!has_room(s, trial)) return;
        cost now = price_product(s, trial);
        if (!cost_is_less(&now, &s->best_cost)) return;
        s->best_cost = now;
        s->best = *trial;
        return;
    }
    int64_t left = s->p->loops->cores / division_cores(op, trial), units = 1;
    if (loop_result(op)->stride[v]) units = sizes->units[v];
    for (int32_t slices = 1; slices <= left && slices <= units; slices++) {
        if (!division_cuts(units, slices, sizes->uneven[v])) continue;
        trial->split[v] = slices;
        try_from(s, v + 1, trial);
    }
    trial->split[v] = 1;
}

division matmul_division(const division_prices *p, uint32_t index, uint32_t resident,
                         const division *published)
{
    product s = {.p = p, .index = index, .resident = resident, .best = *published};
    division trial = division_whole();
    s.best_cost = price_product(&s, published);
    if (!has_room(&s, published)) s.best_cost.us = INFINITY;
    try_from(&s, 0, &trial);
    core_numbers_choose(p->loops, op_of(&s), &s.best);
    return s.best;
}
