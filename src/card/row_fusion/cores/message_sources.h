// SPDX-License-Identifier: Apache-2.0
//
// Which messages brought the bytes of LX that tiles read.
#ifndef CARD_MESSAGE_SOURCES_H
#define CARD_MESSAGE_SOURCES_H

#include "card/footprint/lx_access.h"
#include "card/row_fusion/cores/message_map.h"

enum { ROWS_MOST_MAPS = 24 };

// Of kernels that are followed in their order; zero before the first one.
typedef struct {
    uint32_t count, receivers;
    rows_messages *maps[ROWS_MOST_MAPS];
    uint8_t brought_by[ISA_LX_BYTES / SPYRE_STICK_BYTES];  // map n: n + 1; 0: a core's own
} rows_sources;

// The next kernel, `number` of them, brings messages to cores. False where what it sends has been
// brought itself.
bool rows_receive(rows_sources *s, rows_messages *map, uint32_t cores, uint32_t number);

// The next kernel has tiles from `first` on: fills `sent` of what they read. False
// where they read what is no longer where it was sent from, or a mixture.
bool rows_find_sources(rows_sources *s, uint32_t first, rows_tiles *tiles);

// The last kernel surely wrote all these bytes.
void rows_replace(rows_sources *s, const plan_kernel *kernel, const lx_ranges *replaced);

#endif
