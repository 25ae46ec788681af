// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_PLACES_H
#define FRONT_LX_PLACES_H

#include "front/ir/loop.h"

// Gives buffers their places in LX, whatever places they had before. The others get the reason why
// they are in memory.
SPYRE_MUST_CHECK spyre_status lx_places_choose(loop_graph *loops);

#endif
