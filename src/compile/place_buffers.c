// SPDX-License-Identifier: Apache-2.0
//
// The solvers of buffer placement for callers of the library. Solvers count in units of the
// alignment; an end that is no whole unit is tried as one first.
#include "spyre/scratchpad.h"

#include <string.h>

#include "front/memory/solver.h"

static int solver_number(const char *name)
{
    static const char *const names[] = {
#define SOLVER_ROW(name, summary) #name,
#include "front/memory/solver.def"
#undef SOLVER_ROW
    };
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return (int)i;
    return -1;
}

static spyre_status check_buffer(const spyre_live_buffer *buffers, uint32_t count, uint32_t i)
{
    const spyre_live_buffer *b = &buffers[i];
    if (b->bytes < 1 || b->bytes > INT64_MAX / 4)
        return status_new(SPYRE_INVALID_ARGUMENT, "buffer %u has %lld bytes", i,
                          (long long)b->bytes);
    if (b->first > b->last || b->last >= SPYRE_LIVE_BUFFER_MOST_OPS)
        return status_new(SPYRE_INVALID_ARGUMENT, "buffer %u lives from op %u to op %u", i,
                          b->first, b->last);
    if (b->parent_count > SPYRE_LIVE_BUFFER_PARENTS)
        return status_new(SPYRE_INVALID_ARGUMENT, "buffer %u has %u parents, %d are possible", i,
                          b->parent_count, SPYRE_LIVE_BUFFER_PARENTS);
    for (uint32_t p = 0; p < b->parent_count; p++)
        if (b->parents[p] >= count || b->parents[p] == i)
            return status_new(SPYRE_INVALID_ARGUMENT, "buffer %u has no parent %u", i,
                              b->parents[p]);
    return NULL;
}

// A parent that dies elsewhere, or is smaller, or has a child already has no place to hand over.
static void take_parents(const spyre_live_buffer *buffers, uint32_t i, bool *taken,
                         solver_item *item)
{
    const spyre_live_buffer *child = &buffers[i];
    for (uint32_t p = 0; p < child->parent_count; p++) {
        const spyre_live_buffer *parent = &buffers[child->parents[p]];
        bool fits = parent->last == child->first && parent->first < child->first &&
                    parent->bytes >= child->bytes && !taken[child->parents[p]];
        if (!fits) continue;
        taken[child->parents[p]] = true;
        item->parent[item->parent_count++] = child->parents[p];
    }
}

static bool is_inside(const solver_problem *problem, const spyre_live_buffer *buffers,
                      int64_t capacity, int64_t alignment)
{
    for (uint32_t i = 0; i < problem->count; i++) {
        int64_t unit = problem->items[i].address;
        if (unit != SOLVER_UNPLACED && unit * alignment > capacity - buffers[i].bytes) return false;
    }
    return true;
}

static spyre_status solve(arena *memory, uint32_t solver, int64_t capacity, int64_t alignment,
                          spyre_live_buffer *buffers, uint32_t count)
{
    solver_problem problem = {.memory = memory, .count = count};
    bool *taken = ARENA_NEW(memory, bool, count);
    TRY_NEW(memory, problem.items, count);
    TRY_ALLOC(taken);
    for (uint32_t i = 0; i < count; i++) {
        TRY(check_buffer(buffers, count, i));
        problem.items[i] = (solver_item){.bytes = (buffers[i].bytes + alignment - 1) / alignment,
                                         .first = buffers[i].first, .last = buffers[i].last,
                                         .worth = buffers[i].worth};
    }
    for (uint32_t i = 0; i < count; i++) take_parents(buffers, i, taken, &problem.items[i]);
    problem.capacity = capacity / alignment + (capacity % alignment != 0);
    TRY(solver_run(&problem, solver));
    if (!is_inside(&problem, buffers, capacity, alignment)) {
        problem.capacity = capacity / alignment;
        TRY(solver_run(&problem, solver));
    }
    TRY(solver_check(&problem));
    for (uint32_t i = 0; i < count; i++)
        buffers[i].address = problem.items[i].address == SOLVER_UNPLACED
                                 ? -1 : problem.items[i].address * alignment;
    return NULL;
}

spyre_status spyre_place_buffers(const char *solver, int64_t capacity, int64_t alignment,
                                 spyre_live_buffer *buffers, uint32_t count)
{
    int number = solver_number(solver);
    if (number < 0)
        return status_new(SPYRE_INVALID_ARGUMENT, "layout_solver: there is no '%.40s'", solver);
    if (capacity < 0 || alignment < 1 || alignment > INT32_MAX)
        return status_new(SPYRE_INVALID_ARGUMENT, "capacity %lld and alignment %lld: at least 0 "
                          "and 1 are possible", (long long)capacity, (long long)alignment);
    if (count == 0) return NULL;
    arena *memory = arena_create();
    TRY_ALLOC(memory);
    spyre_status status = solve(memory, (uint32_t)number, capacity, alignment, buffers, count);
    arena_destroy(memory);
    return status;
}
