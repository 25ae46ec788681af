// SPDX-License-Identifier: Apache-2.0
//
// What all divisions together cost, for joint_work_division: with the room that LX has for what
// they let stay there.
#ifndef FRONT_DIVISION_PLAN_H
#define FRONT_DIVISION_PLAN_H

#include "front/plan/division_price.h"
#include "front/plan/plan.h"

// Sets the price of the plan in force for each of `count` parts; part[op] is the op's. Buffers
// whose slices, and the forms in which they go over the ring, have no room when their time comes
// are priced in memory, those first that save the least a byte.
SPYRE_MUST_CHECK spyre_status division_plan_price(division_prices *p, const uint32_t *part,
                                                  uint32_t count, plan_price *out);

#endif
