// SPDX-License-Identifier: Apache-2.0
#include "front/plan/division_search.h"

#include <math.h>
#include <string.h>

#include "front/plan/division_candidates.h"
#include "front/plan/jointly_divided_loops.h"

enum { LOOPS_TRIED = 4, STARTS = 2 + 2 * LOOPS_TRIED, MOST_SWEEPS = 2, TRIED_WITHOUT = 3 };

// A plan that costs so much more than the best one may become the best by another sweep.
static const double NEAR = 1.1;

// What a plan begins with.
typedef struct {
    division *shares; // by op; null: as another start does
    double *us;       // by part: of the plan that came of it, with shuffles
} start;

typedef struct {
    division_prices p;
    division_candidates c;
    joint_loops a;
    start starts[STARTS];
    division *best;                 // by op, the caller's
    plan_price *now, *best_plan; // by part: the plan in work, the best one
} planner;

static uint32_t op_count(const planner *p)
{
    return p->p.loops->ops.count;
}

// --- Starts

static bool is_known(const planner *p, uint32_t number)
{
    for (uint32_t n = 0; n < number; n++)
        if (p->starts[n].shares && memcmp(p->starts[n].shares, p->starts[number].shares,
                                          op_count(p) * sizeof(division)) == 0)
            return true;
    return false;
}

static spyre_status add_start(planner *p, uint32_t number)
{
    const loop_graph *loops = p->p.loops;
    start *s = &p->starts[number];
    uint32_t at = number - 2;
    joint_plan plan = {at % LOOPS_TRIED, at >= LOOPS_TRIED, loops->cores};
    TRY_NEW(p->p.memory, s->shares, op_count(p));
    TRY_NEW(p->p.memory, s->us, p->a.part_count);
    if (number >= 2) joint_loops_divide(loops, &p->a, p->p.basis, &plan, s->shares);
    for (uint32_t i = 0; i < op_count(p); i++) {
        const division_choice *first =
            p->c.kept[i][number == 1 ? DIVISION_RESIDENT : DIVISION_PUBLISHED];
        if (number < 2 || p->c.settled[i]) s->shares[i] = first->d;
    }
    if (is_known(p, number)) s->shares = NULL;
    return NULL;
}

// --- Plans

static void begin(planner *p, const start *s)
{
    for (uint32_t i = 0; i < op_count(p); i++) {
        division_offer(&p->p, &p->c, i, &s->shares[i]);
        p->p.now[i] = p->c.share[i];
    }
    division_count_apart(&p->p);
}

// Forward and back, so that an op is priced again once its consumers have their divisions.
static bool sweep(planner *p, bool stays)
{
    uint32_t ops = op_count(p);
    bool changed = false;
    for (uint32_t i = 0; i < ops; i++)
        changed |= division_settle(&p->p, &p->c, i, (division_sweep){true, stays});
    for (uint32_t i = ops; i-- > 0;)
        changed |= division_settle(&p->p, &p->c, i, (division_sweep){false, stays});
    return changed;
}

static bool is_better(const planner *p, uint32_t part)
{
    return plan_is_better(p->now[part], p->best_plan[part]);
}

// Keeps the plan in force for the parts where it is cheaper than the best so far.
static spyre_status compare(planner *p)
{
    TRY(division_plan_price(&p->p, p->a.part, p->a.part_count, p->now));
    for (uint32_t i = 0; i < op_count(p); i++)
        if (is_better(p, p->a.part[i])) p->best[i] = p->p.now[i]->d;
    for (uint32_t n = 0; n < p->a.part_count; n++)
        if (is_better(p, n)) p->best_plan[n] = p->now[n];
    return NULL;
}

// True when the plan in force is about as good as the best one for some part.
static bool is_near(const planner *p)
{
    for (uint32_t n = 0; n < p->a.part_count; n++)
        if (p->now[n].us <= p->best_plan[n].us * NEAR) return true;
    return false;
}

// The first sweep lets ops leave what a neighbour made them take, the others do not.
static spyre_status try_start(planner *p, start *s)
{
    begin(p, s);
    for (uint32_t n = 0; n < MOST_SWEEPS && (n == 0 || is_near(p)); n++) {
        if (!sweep(p, n > 0) && n > 0) break;
        TRY(compare(p));
        for (uint32_t part = 0; part < p->a.part_count; part++)
            if (n == 0) s->us[part] = p->now[part].us;
    }
    return NULL;
}

static spyre_status try_starts(planner *p)
{
    const spyre_settings *settings = &p->p.loops->settings;
    p->p.shuffles = settings->lx_planning && settings->lx_planner_relayout;
    for (uint32_t number = 0; number < STARTS; number++) {
        start *s = &p->starts[number];
        if (!s->shares) continue;
        TRY(try_start(p, s));
    }
    return NULL;
}

// The best plan, but what follows a product is divided as the product is, up to the next one. Where
// several ops read one buffer, as in softmax, none of them gains by leaving the others alone.
static spyre_status try_carried(planner *p)
{
    uint32_t ops = op_count(p);
    start s = {ARENA_NEW(p->p.memory, division, ops),
               ARENA_NEW(p->p.memory, double, p->a.part_count)};
    TRY_ALLOC(s.shares);
    TRY_ALLOC(s.us);
    for (uint32_t i = 0; i < ops; i++) {
        division carried;
        bool follows = !p->c.settled[i] && !loop_is_matmul(&p->p.loops->ops.items[i]);
        s.shares[i] = follows && division_follow_writer(&p->p, i, &carried) ? carried : p->best[i];
        p->p.now[i] = division_choice_of(p->p.kinds, i, &s.shares[i]);
    }
    return try_start(p, &s);
}

static bool has_shuffles(const planner *p)
{
    for (uint32_t n = 0; n < p->a.part_count; n++)
        if (p->best_plan[n].messages) return true;
    return false;
}

static double total_us(const planner *p, const start *s)
{
    double us = 0;
    for (uint32_t n = 0; n < p->a.part_count; n++) us += s->us[n];
    return us;
}

static spyre_status try_best_without_shuffles(planner *p)
{
    bool tried[STARTS] = {false};
    p->p.shuffles = false;
    for (uint32_t i = 0; i < TRIED_WITHOUT; i++) {
        uint32_t best = STARTS;
        for (uint32_t n = 0; n < STARTS; n++) {
            if (!p->starts[n].shares || tried[n]) continue;
            if (best == STARTS || total_us(p, &p->starts[n]) < total_us(p, &p->starts[best]))
                best = n;
        }
        if (best == STARTS) return NULL;
        tried[best] = true;
        TRY(try_start(p, &p->starts[best]));
    }
    return NULL;
}

static spyre_status create(const loop_graph *loops, const lx_copies *copies, arena *memory,
                           planner *p)
{
    TRY(division_prices_create(loops, copies, memory, &p->p));
    TRY(division_candidates_create(&p->p, &p->c));
    TRY(joint_loops_build(loops, &p->p.f, p->p.basis, &p->a));
    TRY_NEW(memory, p->now, p->a.part_count);
    TRY_NEW(memory, p->best_plan, p->a.part_count);
    for (uint32_t n = 0; n < p->a.part_count; n++) p->best_plan[n].us = INFINITY;
    for (uint32_t i = 0; i < loops->ops.count; i++)
        p->best[i] = p->c.kept[i][DIVISION_PUBLISHED]->d;
    for (uint32_t n = 0; n < STARTS; n++)
        if (n != 1 || p->c.products) TRY(add_start(p, n));
    return NULL;
}

spyre_status division_search(const loop_graph *loops, const lx_copies *copies, arena *memory,
                             division *out_best, plan_price *out_price)
{
    planner p = {.best = out_best};
    TRY(create(loops, copies, memory, &p));
    TRY(try_starts(&p));
    if (p.c.products) TRY(try_carried(&p));
    if (has_shuffles(&p)) TRY(try_best_without_shuffles(&p));
    if (p.p.kinds->no_memory) return status_no_memory();
    *out_price = (plan_price){.messages = has_shuffles(&p)};
    for (uint32_t n = 0; n < p.a.part_count; n++) out_price->us += p.best_plan[n].us;
    return NULL;
}
