// SPDX-License-Identifier: Apache-2.0
#include "front/memory/solver_keys.h"

#include <inttypes.h>

static solver_function *const solvers[] = {
#define SOLVER_ROW(name, summary) solver_##name,
#include "front/memory/solver.def"
#undef SOLVER_ROW
};

// A parent begins to live before its child.
static spyre_status set_generations(solver_problem *problem)
{
    uint32_t *order;
    TRY(solver_order_by(problem, solver_key_start, &order));
    for (uint32_t i = 0; i < problem->count; i++) {
        solver_item *item = &problem->items[order[i]];
        item->generation = 0;
        for (uint32_t p = 0; p < item->parent_count; p++) {
            uint32_t above = problem->items[item->parent[p]].generation + 1;
            if (above > item->generation) item->generation = above;
        }
    }
    return NULL;
}

spyre_status solver_run(solver_problem *problem, uint32_t solver)
{
    if (solver >= sizeof solvers / sizeof solvers[0])
        return status_new(SPYRE_INVALID_ARGUMENT, "layout_solver: there is no solver %u", solver);
    problem->optimal = false;
    TRY(set_generations(problem));
    return solvers[solver](problem);
}

// --- The verifier

static bool may_take_place(const solver_item *child, uint32_t parent, const solver_item *items)
{
    const solver_item *from = &items[parent];
    if (from->last != child->first || from->address != child->address) return false;
    if (from->bytes < child->bytes) return false;
    for (uint32_t i = 0; i < child->parent_count; i++)
        if (child->parent[i] == parent) return true;
    return false;
}

static spyre_status check_pair(const solver_problem *problem, uint32_t a, uint32_t b)
{
    const solver_item *x = &problem->items[a], *y = &problem->items[b];
    bool apart = x->address + x->bytes <= y->address || y->address + y->bytes <= x->address;
    if (apart || x->last < y->first || y->last < x->first) return NULL;
    if (may_take_place(x, b, problem->items) || may_take_place(y, a, problem->items)) return NULL;
    return status_new(SPYRE_INTERNAL,
                      "items %u at [%" PRId64 ", %" PRId64 ") of ops %u to %u and %u at [%" PRId64
                      ", %" PRId64 ") of ops %u to %u overlap",
                      a, x->address, x->address + x->bytes, x->first, x->last, b, y->address,
                      y->address + y->bytes, y->first, y->last);
}

// In the order of time, each item against those that still live.
spyre_status solver_check(const solver_problem *problem)
{
    uint32_t *live = ARENA_NEW(problem->memory, uint32_t, problem->count), *order;
    uint32_t live_count = 0;
    TRY_ALLOC(live);
    TRY(solver_order_by(problem, solver_key_start, &order));
    for (uint32_t i = 0; i < problem->count; i++) {
        const solver_item *item = &problem->items[order[i]];
        if (item->address == SOLVER_UNPLACED) continue;
        if (item->address < 0 || item->bytes > problem->capacity - item->address)
            return status_new(SPYRE_INTERNAL,
                              "item %u at [%" PRId64 ", %" PRId64 ") leaves the %" PRId64 " bytes",
                              order[i], item->address, item->address + item->bytes,
                              problem->capacity);
        uint32_t kept = 0;
        for (uint32_t n = 0; n < live_count; n++) {
            if (problem->items[live[n]].last < item->first) continue;
            TRY(check_pair(problem, live[n], order[i]));
            live[kept++] = live[n];
        }
        live[kept++] = order[i];
        live_count = kept;
    }
    return NULL;
}
