// SPDX-License-Identifier: Apache-2.0
//
// Places buffers that live for a range of ops in one space of bytes, the LX of a core or the pool
// in memory, so that no two of them overlap in time and place. A solver is a row of solver.def.
#ifndef FRONT_SOLVER_H
#define FRONT_SOLVER_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/vec.h"

enum { SOLVER_UNPLACED = -1, SOLVER_MOST_PARENTS = 5 };

// In place: an item may start where a parent starts, in the op in which the parent dies, when the
// parent is at least as large. A parent has one child, because an op has one result.
typedef struct {
    int64_t bytes;        // above 0
    uint32_t first, last; // ops at whose position the item lives, both included
    int64_t worth;        // what is gained when it is placed
    uint32_t parent_count;
    uint32_t parent[SOLVER_MOST_PARENTS]; // items
    uint32_t generation;                  // set by solver_run: 0, or above that of every parent
    int64_t address;                      // result: byte, or SOLVER_UNPLACED
} solver_item;

typedef struct {
    arena *memory; // scratch
    solver_item *items;
    uint32_t count;
    int64_t capacity; // bytes
    int64_t top;      // result: end of the highest item
    bool optimal;     // result: everything has a place, and no plan has a lower top
} solver_problem;

// Sets every address and the top. `solver` is the number of a row of solver.def, 0 the best one;
// SPYRE_INVALID_ARGUMENT for another number. Deterministic.
SPYRE_MUST_CHECK spyre_status solver_run(solver_problem *problem, uint32_t solver);

// SPYRE_INTERNAL when items overlap, leave the capacity, or share a place that they may not.
SPYRE_MUST_CHECK spyre_status solver_check(const solver_problem *problem);

typedef spyre_status solver_function(solver_problem *problem);
#define SOLVER_ROW(name, summary) SPYRE_MUST_CHECK solver_function solver_##name;
#include "front/memory/solver.def"
#undef SOLVER_ROW

#endif
