// SPDX-License-Identifier: Apache-2.0
//
// What a whole plan costs, for agree_divisions: with the room that LX has for what its choices let
// stay there.
#ifndef FRONT_AGREE_PLAN_H
#define FRONT_AGREE_PLAN_H

#include "front/divide/agree_price.h"

typedef struct {
    double us;
    bool shuffles; // something goes over the ring
} agree_plan;

// Sets the price of the plan in force for each of `count` parts; part[op] is the op's. Buffers
// whose slices, and the forms in which they go over the ring, have no room when their time comes
// are priced in memory, those first that save the least a byte.
SPYRE_MUST_CHECK spyre_status agree_plan_price(agree_prices *p, const uint32_t *part,
                                               uint32_t count, agree_plan *out);

#endif
