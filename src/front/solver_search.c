// SPDX-License-Identifier: Apache-2.0
//
// The search solver. No single order packs every shape of lives well, so several are tried and the
// best plan is kept: the most worth placed, then the lowest top. While something has no place, the
// most worthy item without one moves forward in the best order, to a position that a fixed sequence
// of numbers chooses, and the order is tried again. The work, not the time, is bounded, so that the
// same problem has the same plan everywhere.
#include "front/placement.h"
#include "front/solver_order.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_VISITS = 1 << 20, MOST_TRIES = 4096 };

typedef struct {
    placement p;
    int64_t *addresses, worth, top; // the best plan
    uint32_t *order;                // what led to it
    placement_policy policy;
    uint64_t random;
} search;

static int64_t placed_worth(const solver_problem *problem)
{
    int64_t worth = 0;
    for (uint32_t i = 0; i < problem->count; i++)
        if (problem->items[i].address != SOLVER_UNPLACED) worth += problem->items[i].worth;
    return worth;
}

static spyre_status try_order(search *s, const uint32_t *order, placement_policy policy)
{
    solver_problem *problem = s->p.problem;
    TRY(placement_add_all(&s->p, order, policy));
    int64_t worth = placed_worth(problem);
    if (worth < s->worth || (worth == s->worth && problem->top >= s->top)) return NULL;
    s->worth = worth;
    s->top = problem->top;
    s->policy = policy;
    memcpy(s->order, order, problem->count * sizeof *order);
    for (uint32_t i = 0; i < problem->count; i++) s->addresses[i] = problem->items[i].address;
    return NULL;
}

static spyre_status try_orders(search *s)
{
    static const struct {
        solver_key_function *key;
        placement_policy policy;
    } tries[] = {
        {solver_key_start, PLACE_BEST_FIT},       {solver_key_area, PLACE_FIRST_FIT},
        {solver_key_bytes, PLACE_FIRST_FIT},      {solver_key_density, PLACE_FIRST_FIT},
        {solver_key_generation, PLACE_FIRST_FIT}, {solver_key_generation, PLACE_BEST_FIT},
        {solver_key_start, PLACE_GREEDY},
    };
    for (uint32_t t = 0; t < sizeof tries / sizeof tries[0]; t++) {
        uint32_t *order;
        TRY(solver_order_by(s->p.problem, tries[t].key, &order));
        TRY(try_order(s, order, tries[t].policy));
    }
    return NULL;
}

// Knuth's linear congruential generator (MMIX).
static uint32_t next_random(search *s, uint32_t below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((s->random >> 33) % below);
}

// Of the items without a place in the best plan, the position of one: the most worthy at every
// other turn, else any.
static bool choose_homeless(search *s, uint32_t turn, uint32_t *out_position)
{
    const solver_item *items = s->p.problem->items;
    uint32_t count = s->p.problem->count, start = next_random(s, count);
    bool found = false;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t position = (start + n) % count;
        if (s->addresses[s->order[position]] != SOLVER_UNPLACED) continue;
        if (items[s->order[position]].bytes > s->p.problem->capacity) continue;
        if (found && items[s->order[position]].worth <= items[s->order[*out_position]].worth)
            continue;
        *out_position = position;
        found = true;
        if (turn % 2) return true;
    }
    return found;
}

static spyre_status improve(search *s)
{
    solver_problem *problem = s->p.problem;
    uint32_t *order = ARENA_NEW(problem->memory, uint32_t, problem->count), position = 0;
    TRY_ALLOC(order);
    for (uint32_t turn = 0; turn < MOST_TRIES && s->p.visits < MOST_VISITS; turn++) {
        if (!choose_homeless(s, turn, &position)) return NULL;
        uint32_t item = s->order[position], to = position ? next_random(s, position) : 0;
        memcpy(order, s->order, problem->count * sizeof *order);
        memmove(order + to + 1, order + to, (position - to) * sizeof *order);
        order[to] = item;
        TRY(try_order(s, order, s->policy));
    }
    return NULL;
}

spyre_status solver_search(solver_problem *problem)
{
    search s = {.worth = -1};
    TRY(placement_create(problem, &s.p));
    s.addresses = ARENA_NEW(problem->memory, int64_t, problem->count);
    s.order = ARENA_NEW(problem->memory, uint32_t, problem->count);
    TRY_ALLOC(s.addresses);
    TRY_ALLOC(s.order);
    TRY(try_orders(&s));
    if (problem->count) TRY(improve(&s));
    for (uint32_t i = 0; i < problem->count; i++) problem->items[i].address = s.addresses[i];
    problem->top = s.top;
    return NULL;
}
