// SPDX-License-Identifier: Apache-2.0
//
// The search solver. No single order packs every shape of lives well, so several are tried and the
// best plan is kept: the most worth placed, then the lowest top. Then an item moves forward in the
// best order, to a position that a fixed sequence of numbers chooses, and the order is tried again:
// the most worthy one without a place, or, when all have one, one that reaches the top. It ends
// when no plan can have a lower top, which for few items a short branch and bound may tell. The
// work, not the time, is bounded, so that the same problem has the same plan everywhere.
#include "front/memory/placement.h"
#include "front/memory/solver_keys.h"

#include <stdbool.h>
#include <string.h>

// Work: to place everything, then to lower the top, then to prove that it is the lowest.
enum { MOST_TRIES = 4096, MOST_VISITS = 1 << 20, MOST_TOP_VISITS = 1 << 18, MOST_STEPS = 1 << 15 };

typedef struct {
    placement p;
    int64_t *addresses, worth, top; // the best plan
    int64_t bound;                  // no plan with everything in it has a lower top
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
    if (worth < s->worth || (worth == s->worth && problem->top > s->top)) return NULL;
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

// True when moving the item forward may make the plan better.
static bool should_move(const search *s, uint32_t item, bool unplaced)
{
    const solver_item *i = &s->p.problem->items[item];
    int64_t address = s->addresses[item];
    if (unplaced) return address == SOLVER_UNPLACED && i->bytes <= s->p.problem->capacity;
    return address + i->bytes == s->top;
}

// The position of an item to move: the most worthy at every other turn, else any.
static bool choose_item(search *s, uint32_t turn, bool unplaced, uint32_t *out_position)
{
    const solver_item *items = s->p.problem->items;
    uint32_t count = s->p.problem->count, start = next_random(s, count);
    bool found = false;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t position = (start + n) % count;
        if (!should_move(s, s->order[position], unplaced)) continue;
        if (found && items[s->order[position]].worth <= items[s->order[*out_position]].worth)
            continue;
        *out_position = position;
        found = true;
        if (turn % 2) return true;
    }
    return found;
}

// The most bytes that live at one moment, where nothing can share a place.
static spyre_status find_bound(search *s)
{
    const solver_problem *problem = s->p.problem;
    uint32_t end = 1;
    for (uint32_t i = 0; i < problem->count; i++)
        if (problem->items[i].last >= end) end = problem->items[i].last + 1;
    int64_t *change = ARENA_NEW(problem->memory, int64_t, end + 1), live = 0;
    TRY_ALLOC(change);
    for (uint32_t i = 0; i < problem->count; i++) {
        const solver_item *item = &problem->items[i];
        if (item->bytes > s->bound) s->bound = item->bytes;
        if (item->parent_count && item->first == item->last) continue;
        change[item->first + (item->parent_count > 0)] += item->bytes;
        change[item->last + 1] -= item->bytes;
    }
    for (uint32_t m = 0; m < end; m++) {
        live += change[m];
        if (live > s->bound) s->bound = live;
    }
    return NULL;
}

static bool is_complete(const search *s)
{
    for (uint32_t i = 0; i < s->p.problem->count; i++)
        if (s->addresses[i] == SOLVER_UNPLACED) return false;
    return true;
}

static spyre_status improve(search *s)
{
    solver_problem *problem = s->p.problem;
    uint32_t *order = ARENA_NEW(problem->memory, uint32_t, problem->count), position = 0;
    bool complete = is_complete(s);
    TRY_ALLOC(order);
    for (uint32_t turn = 0; turn < MOST_TRIES; turn++) {
        if (s->p.visits >= (complete ? MOST_TOP_VISITS : MOST_VISITS)) return NULL;
        if (complete && s->top == s->bound) return NULL;
        if (!choose_item(s, turn, !complete, &position)) return NULL;
        if (complete && turn % 4 == 3) position = next_random(s, problem->count);
        uint32_t item = s->order[position], to = position ? next_random(s, position) : 0;
        memcpy(order, s->order, problem->count * sizeof *order);
        memmove(order + to + 1, order + to, (position - to) * sizeof *order);
        order[to] = item;
        TRY(try_order(s, order, s->policy));
        complete = complete || is_complete(s);
    }
    return NULL;
}

spyre_status solver_search(solver_problem *problem)
{
    search s = {.worth = -1};
    TRY(placement_create(problem, &s.p));
    TRY_NEW(problem->memory, s.addresses, problem->count);
    TRY_NEW(problem->memory, s.order, problem->count);
    TRY(try_orders(&s));
    if (problem->count == 0) return NULL;
    TRY(find_bound(&s));
    TRY(improve(&s));
    for (uint32_t i = 0; i < problem->count; i++) problem->items[i].address = s.addresses[i];
    problem->top = s.top;
    problem->optimal = is_complete(&s) && s.top == s.bound;
    return problem->optimal ? NULL : solver_prove(problem, MOST_STEPS);
}
