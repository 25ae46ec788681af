// SPDX-License-Identifier: Apache-2.0
//
// Groups of cores that a host thread takes along together, and their order.
#ifndef CARD_CORE_GROUPS_H
#define CARD_CORE_GROUPS_H

#include "card/plan.h"

// Of a kernel: so many cores that what they read at one place for its products is worth packing,
// those that share an operand next to each other. By `count` tiles, of which some may be null.
core_group core_group_of(const isa_kernel *kernel, plan_tile *const *tiles, uint32_t count);

// So many of the cores that no thread is left without one.
uint32_t core_groups_per_thread(uint32_t threads, uint32_t cores);

// As many cores as gain from multiplying together, but something to do for every thread. A lone
// kernel leaves nothing in the cache for the next one: there all of a thread's cores go together.
void core_groups_divide(uint32_t threads, const plan_phase *first, plan_stage *stage);

#endif
