// SPDX-License-Identifier: Apache-2.0
#ifndef CARD_PARALLEL_H
#define CARD_PARALLEL_H

// Below this much work other threads cost more than they save: when they must be woken, and when
// they are awake. As plan_kernel.weight_bytes.
#define WAKING_WEIGHT_BYTES 131072.0
#define PARALLEL_WEIGHT_BYTES 16384.0

#endif
