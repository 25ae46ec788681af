// SPDX-License-Identifier: Apache-2.0
//
// The transport between hosts: a TCP connection between any two ranks on different ones, and a
// thread of each rank that puts what arrives into the shared memory of its host. All that a rank
// sends to a host goes to one gateway there by one connection, whose frames keep their order, so
// whoever sees an atomic sees what was pushed before it. Messages go by the connection to their
// receiver, as does what a rank says last.
#ifndef COMM_NETWORK_H
#define COMM_NETWORK_H

#include "comm/shared_memory.h"

// What comes over a connection; data follow a push. END: the sender leaves.
typedef enum { FRAME_BYTES, FRAME_WHOLE, FRAME_RING, FRAME_END, FRAME_KINDS } frame_kind;

typedef struct {
    uint64_t at;                // offset in the shared memory; of a ring network_bell()
    uint32_t bytes, kind;
} network_frame;

// A bell of a rank, or of all ranks of the host (SHARED_MEMORY_ALL), as one number.
static inline uint64_t network_bell(uint32_t rank, uint32_t bell)
{
    return (uint64_t)rank * SHARED_MEMORY_BELLS + bell;
}

static inline uint32_t network_bell_rank(uint64_t at)
{
    return (uint32_t)(at / SHARED_MEMORY_BELLS);
}

// INVALID_FORMAT for a frame of rank `from` that breaks a rule: it names what is not the sender's.
SPYRE_MUST_CHECK spyre_status network_check_frame(const shared_memory *s, uint32_t from,
                                                  const network_frame *frame);

// Makes it the transport of the shared memory, whose topology is known. sockets[r] is the
// connection to rank r of another host, taken over also on failure. A peer that takes nothing for
// `timeout_ms` counts as cut off.
SPYRE_MUST_CHECK spyre_status network_open(shared_memory *s, const int *sockets,
                                           int64_t timeout_ms);

#endif
