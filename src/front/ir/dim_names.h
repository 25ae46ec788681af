// SPDX-License-Identifier: Apache-2.0
//
// The user's names of dims, for messages.
#ifndef FRONT_DIM_NAMES_H
#define FRONT_DIM_NAMES_H

#include "front/ir/loop.h"

// "loops of the segment are named M, K", or that none is; in the segment's memory.
const char *dim_names_in_use(const loop_graph *loops);

#endif
