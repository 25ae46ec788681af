// SPDX-License-Identifier: Apache-2.0
//
// The exact solver: the plan of `search`, and a long proof that there is no better one.
#include "front/memory/solver_keys.h"

enum { MOST_STEPS = 1 << 21 };

spyre_status solver_exact(solver_problem *problem)
{
    TRY(solver_search(problem));
    return problem->optimal ? NULL : solver_prove(problem, MOST_STEPS);
}
