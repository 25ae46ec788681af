// SPDX-License-Identifier: Apache-2.0
#ifndef FRONT_LX_ADDRESSES_H
#define FRONT_LX_ADDRESSES_H

#include "front/ir/loop.h"

// Gives buffers their places in LX, whatever places they had before. The others get the reason why
// they are in memory.
SPYRE_MUST_CHECK spyre_status lx_addresses_find(loop_graph *loops);

#endif
