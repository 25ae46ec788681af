// SPDX-License-Identifier: Apache-2.0
//
// Lanes of a product's results without a reader: heads of 32 are half of each stick, and what lies
// beside them is padding. A product that is the next kernel takes the first lanes of every stick
// only; the others are not computed.
#ifndef CARD_UNREAD_H
#define CARD_UNREAD_H

#include "card/fuse/lx_flow.h"

// Looks at kernels `maker` and the one right behind it, `taker`, which both run fused and without
// loops around them. Lowers `kept` of maker's product to what taker reads when each is one product,
// and the result has no other reader in LX.
void unread_drop(const lx_summaries *lx, const plan_kernel *maker, const plan_kernel *taker);

#endif
