// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a communicator find each other. Rank 0 listens on a socket of its host and on a
// TCP port, and puts both into the store; the others connect, by the former if they are on its
// host. When all have come it tells them where everybody is. The ranks of a host share memory,
// whose file the first of them hands to the others; ranks of different hosts connect by TCP.
// Sockets of a host check that the other side belongs to the same user, TCP connections that it
// knows what is in the store.
#ifndef COMM_RENDEZVOUS_H
#define COMM_RENDEZVOUS_H

#include "comm/shared_memory.h"
#include "comm/sockets.h"

enum { MEETING_TEXT_BYTES = 512 };

// What rank 0 puts into the store.
typedef struct {
    uint32_t size, port;
    char socket[SOCKET_NAME_BYTES], host[SOCKET_HOST_BYTES], addresses[SOCKET_ADDRESSES_BYTES];
} meeting;

// As text, and back: INVALID_FORMAT for anything else.
void meeting_write(const meeting *m, char out_text[MEETING_TEXT_BYTES]);
SPYRE_MUST_CHECK spyre_status meeting_read(const char *value, size_t length, meeting *out);

// The shared memory of this rank, which stays where it is; `options` have been checked. The
// environment's SPYRE_COMM_TRANSPORT=tcp of rank 0 makes every rank a host of its own,
// SPYRE_COMM_ALGORITHM of rank 0 chooses the algorithm of reductions (choose_algorithm.h). IO: a
// rank did not come in time (named) or cannot be reached; INVALID_ARGUMENT: ranks disagree, or the
// environment has another word.
SPYRE_MUST_CHECK spyre_status rendezvous(const spyre_comm_options *options,
                                         const spyre_comm_store *store, shared_memory *out_shared);

#endif
