// SPDX-License-Identifier: Apache-2.0
//
// One core that makes values of rows for all: its kernel is a chain by itself (chain.h), an
// exchange hands the rows to other cores, and a chain takes them there. On a host every core's
// thread makes the rows that the core will receive and goes on with them: no core waits, and what
// both chains read is still in the cache. An exchange between other kernels goes with the chain
// behind it alone.
#ifndef CARD_SPREAD_H
#define CARD_SPREAD_H

#include "card/chain/chain.h"
#include "card/exchange/exchange.h"

struct spread {
    uint32_t exchange;                      // its phase, counted from the first kernel's
    uint32_t phases;                        // from the first kernel to the end of the chain
    uint32_t cores;                         // that take part
    chain_rows rows[ISA_CORES];             // of the first kernel, that each core makes; none when
                                            // it is the exchange
};

// Looks at phases[0..count), of which the first is a kernel without loops around it, a chain or an
// exchange. Null when they are anything else, when rows are left or wanted twice, or when what one
// core's thread writes is touched by another's. Whoever runs it sees to it that arguments lie apart
// (local.h).
SPYRE_MUST_CHECK spyre_status spread_find(arena *memory, const plan_phase *phases, uint32_t count,
                                          const spread **out);

#endif
