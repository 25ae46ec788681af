// SPDX-License-Identifier: Apache-2.0
//
// Parts of what one core does, for several host threads.
#ifndef CARD_CORE_PARTS_H
#define CARD_CORE_PARTS_H

#include "card/plan/pass.h"

// How many iterations, or indices of a dim, of the kernel's tiles may go in any order, and are
// worth it: 0 where not, or where more cores than one have the kernel.
uint32_t core_parts_count(const plan_kernel *kernel);

// The kernel in so many parts, the n-th of which does its share of them.
SPYRE_MUST_CHECK spyre_status core_parts_make(const translation *t, const plan_kernel *kernel,
                                              uint32_t parts, plan_kernel ***out);

// Whether iterations of a loop around tiles alone write apart from each other and from all that is
// read, on the kernel's first core.
bool core_parts_in_any_order(const plan_kernel *kernel, const plan_step *loop);

#endif
