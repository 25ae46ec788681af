// SPDX-License-Identifier: Apache-2.0
//
// A matmul that is the only reader of the rows that an exchange copies: it reads them in LX of the
// senders, where they stay until the cores meet, and the exchange copies nothing.
#ifndef CARD_THROUGH_H
#define CARD_THROUGH_H

#include "card/exchange/exchange.h"

struct through {
    const plan_tile *tile;                  // all that the kernel behind the exchange does
    plan_tile instead;                      // the same, operand 1 as it lies with the senders
    int64_t from[ISA_CORES];                // bytes from LX of core 0 to a core's operand 1
};

// Looks at phases[0..count), of which the first is a kernel that receives messages. Null when the
// kernel behind it is not one product that joins it, or what is received has another reader.
SPYRE_MUST_CHECK spyre_status through_find(arena *memory, arena *scratch,
                                           const lx_summaries *lx, const plan_phase *phases,
                                           uint32_t count, const through **out);

#endif
