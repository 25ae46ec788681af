// SPDX-License-Identifier: Apache-2.0
//
// The transport between hosts: a TCP connection between any two ranks, and a thread that puts what
// arrives into this rank's segment. Frames of one connection keep their order, so whoever sees an
// atomic sees what was pushed before it.
#ifndef COMM_NETWORK_H
#define COMM_NETWORK_H

#include "comm/segment.h"

// What comes over a connection; data follow a push.
typedef enum { FRAME_BYTES, FRAME_WHOLE, FRAME_RING, FRAME_KINDS } frame_kind;

typedef struct {
    uint64_t at;                // offset in the segment; of a ring the bell
    uint32_t bytes, kind;
} network_frame;

// INVALID_FORMAT for a frame of rank `from` that breaks a rule: it names what is not the sender's.
SPYRE_MUST_CHECK spyre_status network_check_frame(const segment *s, uint32_t from,
                                                  const network_frame *frame);

// Makes it the transport of the segment. sockets[r] is the connection to rank r, taken over also on
// failure. A peer that takes nothing for `timeout_ms` counts as cut off.
SPYRE_MUST_CHECK spyre_status network_open(segment *s, const int *sockets, int64_t timeout_ms);

#endif
