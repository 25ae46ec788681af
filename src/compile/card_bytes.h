// SPDX-License-Identifier: Apache-2.0
//
// Bytes of the card as they are, in whole sticks: they travel as int32, a format that is copied bit
// for bit in both directions.
#ifndef COMPILE_CARD_BYTES_H
#define COMPILE_CARD_BYTES_H

#include "spyre/runtime.h"

typedef struct {
    spyre_context *context;
    uint32_t card, stream;
    uint64_t address;
    int64_t sticks;         // >= 1
} card_bytes;

// Sticks that hold so many bytes.
int64_t card_bytes_sticks(int64_t bytes);

// `host` holds the sticks. Both wait for the stream.
SPYRE_MUST_CHECK spyre_status card_bytes_write(const card_bytes *place, const void *host);
SPYRE_MUST_CHECK spyre_status card_bytes_read(const card_bytes *place, void *host);

#endif
