// SPDX-License-Identifier: Apache-2.0
//
// agree_divisions: ops that share a buffer agree on its division, so that every core finds in its
// LX what it needs next, where that saves more time than it costs. Planning op by op takes the
// largest loop of each, and a chain that changes its loops goes through memory at every change.
//
// Several plans are drawn up: the published divisions, products as they are cheapest with what they
// read and make in LX, and along each of the heaviest axes (axes.h) one with the others behind it
// and one with this axis alone, because a reduced loop keeps no slices beside it. In each plan every
// op in turn takes what is cheapest next to its neighbours (agree_candidates.h). All of them are
// drawn up with shuffles and, when the best has some, again without. Each part of the graph gets the
// cheapest plan, by the time of front/cost.h with what LX has room for (agree_plan.h).
#include "front/agree_candidates.h"
#include "front/agree_plan.h"
#include "front/axes.h"
#include "front/front.h"

enum { AXES_TRIED = 4, TRIALS = 2 + 2 * AXES_TRIED };

typedef struct {
    agree_prices p;
    agree_candidates c;
    axes a;
    division *best;   // by op
    agree_plan *now, *best_plan; // by part: the plan in work, the best one
    bool any;                    // there is a best one
} planner;

static uint32_t op_count(const planner *p)
{
    return p->p.loops->ops.count;
}

// Two sweeps: ops may change their minds once their consumers have chosen.
static void settle(planner *p)
{
    uint32_t ops = op_count(p);
    agree_count_apart(&p->p);
    for (uint32_t i = 0; i < ops; i++) agree_settle(&p->p, &p->c, i, true);
    for (uint32_t i = ops; i-- > 0;) agree_settle(&p->p, &p->c, i, false);
}

// Keeps the plan for the parts where it is cheaper than the best so far.
static spyre_status compare(planner *p)
{
    TRY(agree_plan_price(&p->p, p->a.part, p->a.part_count, p->now));
    for (uint32_t i = 0; i < op_count(p); i++) {
        uint32_t n = p->a.part[i];
        if (!p->any || p->now[n].us < p->best_plan[n].us * (1 - 1e-9)) p->best[i] = p->p.now[i].d;
    }
    for (uint32_t n = 0; n < p->a.part_count; n++)
        if (!p->any || p->now[n].us < p->best_plan[n].us * (1 - 1e-9)) p->best_plan[n] = p->now[n];
    p->any = true;
    return NULL;
}

static bool shuffles(const planner *p)
{
    for (uint32_t n = 0; n < p->a.part_count; n++)
        if (p->best_plan[n].shuffles) return true;
    return false;
}

static spyre_status try_plan(planner *p, uint32_t trial, division *shares)
{
    const loop_graph *loops = p->p.loops;
    axes_plan plan = {(trial - 2) % AXES_TRIED, trial - 2 >= AXES_TRIED, loops->cores};
    if (trial >= 2) axes_divide(loops, &p->a, p->p.basis, &plan, shares);
    for (uint32_t i = 0; i < op_count(p); i++) {
        const agree_choice *first = &p->c.kept[i][trial == 1 ? AGREE_RESIDENT : AGREE_PUBLISHED];
        if (trial < 2 || p->c.settled[i]) shares[i] = first->d;
        agree_offer(&p->p, &p->c, i, &shares[i]);
        p->p.now[i] = *p->c.share[i];
    }
    settle(p);
    return compare(p);
}

static spyre_status try_plans(planner *p, division *shares)
{
    for (uint32_t trial = 0; trial < TRIALS; trial++)
        if (trial != 1 || p->c.products) TRY(try_plan(p, trial, shares));
    return NULL;
}

static spyre_status create(loop_graph *loops, arena *memory, planner *p)
{
    TRY(agree_prices_create(loops, memory, &p->p));
    TRY(agree_candidates_create(&p->p, &p->c));
    TRY(axes_build(loops, &p->p.f, p->p.basis, &p->a));
    p->best = ARENA_NEW(memory, division, loops->ops.count);
    p->now = ARENA_NEW(memory, agree_plan, p->a.part_count);
    p->best_plan = ARENA_NEW(memory, agree_plan, p->a.part_count);
    TRY_ALLOC(p->best);
    TRY_ALLOC(p->now);
    TRY_ALLOC(p->best_plan);
    return NULL;
}

static spyre_status find_plan(loop_graph *loops, arena *memory, bool *out_changed)
{
    planner p = {0};
    division *shares = ARENA_NEW(memory, division, loops->ops.count);
    TRY_ALLOC(shares);
    TRY(create(loops, memory, &p));
    p.p.shuffles = loops->settings.lx_planning && loops->settings.lx_planner_relayout &&
                   !loops->settings.uneven_splits;
    TRY(try_plans(&p, shares));
    if (shuffles(&p)) {
        p.p.shuffles = false;
        TRY(try_plans(&p, shares));
    }
    for (uint32_t i = 0; i < loops->ops.count; i++) {
        loop_op *op = &loops->ops.items[i];
        if (division_equals(op, &p.best[i], &p.c.kept[i][AGREE_PUBLISHED].d)) continue;
        division_set(op, &p.best[i], LOOP_DIVIDED_BY_AGREEMENT);
        *out_changed = true;
    }
    return NULL;
}

spyre_status pass_agree_divisions(loop_graph *loops, bool *out_changed)
{
    *out_changed = false;
    if (division_is_published(loops) || loops->cores == 1 || loops->ops.count == 0) return NULL;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = find_plan(loops, memory, out_changed);
    arena_destroy(memory);
    return status;
}
