// SPDX-License-Identifier: Apache-2.0
#ifndef RUNTIME_COLLECTIVE_TIME_H
#define RUNTIME_COLLECTIVE_TIME_H

#include "spyre/runtime.h"

// Bytes per microsecond and direction, microseconds per message.
typedef struct {
    double bandwidth, latency;
} exchange_link;

double exchange_us_over(const exchange_link *link, spyre_comm_kind kind, uint32_t ranks,
                        double bytes);

// Over the link between cards: microseconds of the card for an exchange of `bytes`, those of
// `count` in spyre_comm_kind.
double exchange_us(spyre_comm_kind kind, uint32_t ranks, double bytes);

// Bytes that a rank's card sends to the others' and receives from them.
typedef struct {
    double sent, received;
} exchange_traffic;
exchange_traffic exchange_traffic_of(const spyre_exchange_info *info);

#endif
