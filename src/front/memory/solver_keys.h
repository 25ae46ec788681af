// SPDX-License-Identifier: Apache-2.0
//
// What solvers share: orders in which items are placed, and the proof. Internal to the solvers.
#ifndef FRONT_SOLVER_KEYS_H
#define FRONT_SOLVER_KEYS_H

#include "front/memory/solver.h"

// Smaller keys come first, ties by the lesser key, then by number.
typedef struct {
    double major, minor;
} solver_key;

typedef solver_key solver_key_function(const solver_problem *problem, uint32_t item);

solver_key_function solver_key_start;      // when it begins to live
solver_key_function solver_key_generation; // parents first, then short lives
solver_key_function solver_key_bytes;      // large ones first
solver_key_function solver_key_area;       // much space for a long time first
solver_key_function solver_key_density;    // most worth a byte and op first

// All items in the order of a key.
SPYRE_MUST_CHECK spyre_status solver_order_by(const solver_problem *problem,
                                              solver_key_function *key, uint32_t **out_order);

// Looks for a better plan than the current one, by branch and bound, for a number of steps; sets
// `optimal`. Problems of more than 64 items stay as they are.
SPYRE_MUST_CHECK spyre_status solver_prove(solver_problem *problem, int64_t steps);

#endif
