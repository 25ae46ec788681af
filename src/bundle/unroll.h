// SPDX-License-Identifier: Apache-2.0
//
// A bundle without loops: every iteration has steps of its own, with the addresses that it would
// compute. What torch-spyre writes by default (UNROLL_LOOPS).
#ifndef BUNDLE_UNROLL_H
#define BUNDLE_UNROLL_H

#include "bundle/model.h"

// A loop nest of more executions than that stays.
enum { BUNDLE_MOST_UNROLLED = 4096 };

// Unrolls in place; nests that are too long stay, *out_kept counts them. `b` has passed
// bundle_verify(). SPYRE_OUT_OF_MEMORY.
SPYRE_MUST_CHECK spyre_status bundle_unroll(bundle *b, uint32_t *out_kept);

#endif
