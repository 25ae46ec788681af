// SPDX-License-Identifier: Apache-2.0
#include "front/plan/division_candidates.h"

#include "front/divide/span_reduction.h"
#include "front/plan/matmul_division.h"

static const loop_op *op_at(const division_prices *p, uint32_t index)
{
    return &p->loops->ops.items[index];
}

static uint32_t may_be_resident(const division_prices *p, uint32_t index)
{
    const loop_op *op = op_at(p, index);
    uint32_t resident = 0;
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (p->may_stay[op->operand[k].buffer]) resident |= 1u << k;
    return resident;
}

static void find_kept(const division_prices *p, division_candidates *c, uint32_t index,
                      uint32_t *alike)
{
    const loop_op *op = op_at(p, index);
    division published = division_get(op);
    bool chooses = loop_is_matmul(op) && !c->settled[index];
    uint32_t resident = may_be_resident(p, index), *before = &alike[p->kinds->alike[index]];
    c->kept_count[index] = 1;
    c->kept[index][DIVISION_PUBLISHED] = division_choice_of(p->kinds, index, &published);
    for (uint32_t n = 1; n < DIVISION_KEPT; n++)
        c->kept[index][n] = c->kept[index][DIVISION_PUBLISHED];
    if (!chooses) return;
    c->products = true;
    c->kept_count[index] = DIVISION_KEPT;
    bool known = *before && may_be_resident(p, *before - 1) == resident &&
                 c->kept[*before - 1][DIVISION_PUBLISHED] == c->kept[index][DIVISION_PUBLISHED];
    for (uint32_t n = 1; n < DIVISION_KEPT && known; n++)
        c->kept[index][n] = c->kept[*before - 1][n];
    for (uint32_t n = 1; n < DIVISION_KEPT && !known; n++) {
        division d = matmul_division(p, index, n == DIVISION_RESIDENT ? resident : 0, &published);
        c->kept[index][n] = division_choice_of(p->kinds, index, &d);
    }
    *before = index + 1;
}

spyre_status division_candidates_create(const division_prices *p, division_candidates *out)
{
    uint32_t ops = p->loops->ops.count, *alike = ARENA_NEW(p->memory, uint32_t, ops);
    division whole = division_whole();
    TRY_NEW(p->memory, out->kept, ops);
    TRY_NEW(p->memory, out->kept_count, ops);
    TRY_NEW(p->memory, out->settled, ops);
    TRY_NEW(p->memory, out->in_reach, ops);
    TRY_NEW(p->memory, out->share, ops);
    TRY_NEW(p->memory, out->rest, ops);
    TRY_NEW(p->memory, out->last, ops);
    TRY_ALLOC(alike);
    for (uint32_t i = 0; i < ops; i++) {
        loop_division_origin by = op_at(p, i)->divided_by;
        out->settled[i] = by == LOOP_DIVIDED_BY_HINT || by == LOOP_DIVIDED_BY_SPAN;
        out->in_reach[i] = span_fits(p->loops, op_at(p, i), &whole);
        find_kept(p, out, i, alike);
    }
    return NULL;
}

// --- Those of one plan

void division_offer(const division_prices *p, division_candidates *c, uint32_t index,
                    const division *share)
{
    const loop_op *op = op_at(p, index);
    c->share[index] = division_choice_of(p->kinds, index, share);
    c->rest[index] = NULL;
    c->last[index] = (division_settled){.known = false};
    if (c->settled[index]) return;
    division rest = division_distribute(p->loops, op, &p->basis[index]->sizes, share);
    c->rest[index] = division_choice_of(p->kinds, index, &rest);
}

// --- As neighbours do

// The division of the op's loops that walks operand k's buffer as the access of another op divides
// it; false when it has none. Where one of them walks it does not matter.
static bool follow(const division_prices *p, uint32_t index, uint32_t k, def_use_use by,
                   division *out)
{
    const loop_op *other = op_at(p, by.op);
    const loop_access *access = &other->operand[by.operand];
    const division *theirs = &p->now[by.op]->d;
    const loop_op *op = op_at(p, index);
    const loop_access *own = &op->operand[k], *result = loop_result(op);
    const division_sizes *sizes = &p->basis[index]->sizes;
    *out = division_whole();
    for (uint32_t u = 0; u < other->var_count; u++) {
        uint32_t v = 0;
        if (theirs->split[u] == 1) continue;
        while (v < op->var_count &&
               (own->stride[v] != access->stride[u] || op->extent[v] != other->extent[u]))
            v++;
        if (v == op->var_count || !own->stride[v] || !result->stride[v]) return false;
        if (!division_cuts(sizes->units[v], theirs->split[u], sizes->uneven[v])) return false;
        out->split[v] = theirs->split[u];
        out->core_stride[v] = theirs->core_stride[u];
    }
    return true;
}

bool division_follow_writer(const division_prices *p, uint32_t index, division *out)
{
    const loop_op *op = op_at(p, index);
    uint32_t largest = LOOP_MAX_OPERANDS;
    for (uint32_t k = 0; k + 1 < op->operand_count; k++)
        if (p->may_stay[op->operand[k].buffer] &&
            (largest == LOOP_MAX_OPERANDS ||
             p->basis[index]->bytes[k] > p->basis[index]->bytes[largest]))
            largest = k;
    if (largest == LOOP_MAX_OPERANDS) return false;
    uint32_t writer = p->f.writer[op->operand[largest].buffer];
    def_use_use write = {writer, op_at(p, writer)->operand_count - 1};
    return writer != index && follow(p, index, largest, write, out);
}

static bool follow_reader(const division_prices *p, uint32_t index, division *out)
{
    uint32_t output = op_at(p, index)->operand_count - 1;
    uint32_t buffer = op_at(p, index)->operand[output].buffer;
    if (!p->may_stay[buffer] || !def_use_use_count(&p->f, buffer)) return false;
    def_use_use read = p->f.uses[p->f.first_use[buffer]];
    return read.op != index && follow(p, index, output, read, out);
}

// --- The choice

static bool reaches(const division_prices *p, const division_candidates *c, uint32_t index,
                    const division *d)
{
    return c->in_reach[index] || span_fits(p->loops, op_at(p, index), d);
}

// True when all ops that share a buffer with this one are as they were then, and so is this one.
static bool is_as_before(const division_prices *p, uint32_t index, uint64_t turn)
{
    const loop_op *op = op_at(p, index);
    for (uint32_t k = 0; k < op->operand_count; k++)
        if (p->changed[op->operand[k].buffer] > turn) return false;
    return true;
}

// The choices that an op compares.
typedef struct {
    const division_choice *all[4 + DIVISION_KEPT];
    uint32_t count;
    const division_choice *neighbour; // as one divides; null when that is among the others
} comparison;

static bool has(const comparison *of, const division_choice *choice)
{
    for (uint32_t i = 0; i < of->count; i++)
        if (of->all[i] == choice) return true;
    return false;
}

static void add(comparison *of, const division_choice *choice)
{
    if (choice && !has(of, choice)) of->all[of->count++] = choice;
}

static comparison collect(const division_prices *p, const division_candidates *c, uint32_t index,
                          division_sweep sweep)
{
    division same;
    comparison of = {.count = 0};
    add(&of, c->share[index]);
    add(&of, c->rest[index]);
    for (uint32_t n = 0; n < c->kept_count[index]; n++) add(&of, c->kept[index][n]);
    if (sweep.stays) add(&of, p->now[index]);
    bool follows =
        sweep.forward ? division_follow_writer(p, index, &same) : follow_reader(p, index, &same);
    if (!follows) return of;
    const division_choice *neighbour = division_choice_of(p->kinds, index, &same);
    if (has(&of, neighbour)) return of;
    of.neighbour = of.all[of.count++] = neighbour;
    return of;
}

// An op whose buffers are all in memory goes to less than half the cores that it has by itself only
// where that saves more than its price is exact to: of more tiles a core a little more of the first
// load overlaps, but a core alone has less of the memory than the price says.
static bool leaves_cores_idle(const division_prices *p, const division_candidates *c,
                              uint32_t index, const division *d)
{
    static const double EXACT_TO = 0.01;
    const loop_op *op = op_at(p, index);
    const division *by_itself = &c->kept[index][DIVISION_PUBLISHED]->d;
    if (may_be_resident(p, index)) return false;
    if (2 * division_cores(op, d) >= division_cores(op, by_itself)) return false;
    return division_cost(p, index, d, 0).us >
           division_cost(p, index, by_itself, 0).us * (1 - EXACT_TO);
}

bool division_settle(division_prices *p, const division_candidates *c, uint32_t index,
                     division_sweep sweep)
{
    const division_choice *best = NULL, *current = p->now[index];
    cost best_cost = {0};
    division_settled *last = &c->last[index];
    uint64_t *compared = &last->compared[sweep.forward];
    if (c->settled[index]) return false;
    if (*compared && is_as_before(p, index, *compared - 1)) return false; // it has the cheapest
    comparison of = collect(p, c, index, sweep);
    bool as_before = last->known && has(&of, current) && current != of.neighbour &&
                     is_as_before(p, index, last->turn);
    for (uint32_t i = 0; i < of.count; i++) {
        bool in_force = of.all[i] == current;
        if (as_before && !in_force && of.all[i] != of.neighbour) continue; // it is dearer
        if (!reaches(p, c, index, &of.all[i]->d)) continue;
        cost now =
            as_before && in_force ? last->price : division_price_of(p, index, of.all[i]);
        if (best && !cost_is_less(&now, &best_cost)) continue;
        if (leaves_cores_idle(p, c, index, &of.all[i]->d)) continue;
        best = of.all[i];
        best_cost = now;
    }
    if (!best) best = c->kept[index][DIVISION_PUBLISHED];
    bool changes = best != current;
    if (changes) division_take(p, index, best);
    last->known = true;
    last->turn = p->turn;
    last->price = best_cost;
    *compared = p->turn + 1;
    return changes;
}
